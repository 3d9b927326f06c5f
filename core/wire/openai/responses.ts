import * as z from 'zod'
import { answerModes } from '../../kit/base/answer-modes.ts'
import { ErrorDetail } from './api-error.ts'

export const Usage = z.object({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() })
export type Usage = z.infer<typeof Usage>

/** How a bridge planned the answer, whose sketch devices may have expanded (PICE). */
const PiceReport = z.looseObject({
  mode: z.string(),
  reason: z.string().nullable(),
  level: z.int().nullable(),
  foreseenTokens: z.number().nullable(),
  fullS: z.number().nullable(),
  predictedS: z.number().nullable(),
  sketchLines: z.int(),
  sketchTokens: z.int(),
  expandedSentences: z.int(),
  completedSentences: z.int(),
  cloudTokens: z.int(),
  edgeTokens: z.int(),
})

/** A way of answering, as the device foresaw it. */
const WayReport = z.looseObject({
  way: z.string(),
  model: z.string().nullable(),
  firstTextMs: z.number().nullable(),
  endMs: z.number().nullable(),
  dollars: z.number().nullable(),
  isChosen: z.boolean(),
  reason: z.string(),
})

/** What a reader uses of the `brim` field, our extension: how the answer was made. Fields with defaults are newer than the others. */
export const BrimReport = z.looseObject({
  ttftMs: z.number(),
  tbtMs: z.object({ p50: z.number().nullable(), p95: z.number().nullable() }),
  rounds: z.int().default(0),
  acceptLength: z.number().nullable(),
  bytesUp: z.number(),
  bytesDown: z.number(),
  drafting: z.looseObject({ chosen: z.string() }).nullish(),
  reusedTokens: z.int().default(0),
  failovers: z.int().default(0),
  wire: z.string().default('fp16'),
  computing: z.looseObject({ provider: z.string(), reason: z.string() }).nullish(),
  sources: z.array(z.looseObject({ from: z.int(), tokens: z.int(), source: z.string(), model: z.string() })).default([]),
  fallback: z.object({ code: z.string(), message: z.string() }).nullish(),
  disco: z
    .looseObject({
      mode: z.string(),
      migrations: z.array(z.looseObject({ from: z.string(), to: z.string(), reason: z.string(), succeeded: z.boolean() })),
      cost: z.record(z.string(), z.looseObject({ promptTokens: z.int(), tokens: z.int(), dollars: z.number().nullable() })),
      exhausted: z.string().nullish(),
      rule: z.looseObject({ name: z.string(), asked: z.string() }).nullish(),
      tokensPerS: z.number(),
      stalls: z.int(),
      stalledMs: z.number(),
      ways: z.array(WayReport).optional(),
    })
    .nullish(),
  pice: PiceReport.nullish(),
  rates: z.looseObject({ prefillTokensPerS: z.number().nullable(), upBytesPerS: z.number().nullable() }).nullish(),
  /** Present where the request asked for them. */
  tokenIds: z.array(z.int()).optional(),
})
export type BrimReport = z.infer<typeof BrimReport>

/** In events before the last: the lines of the answer's sketch that the text does not cover yet. */
const SketchProgress = z.object({ sketch: z.array(z.string()) })
export type SketchProgress = z.infer<typeof SketchProgress>

/** One event of a streamed answer, of either endpoint: a text, an end, figures, or an error. */
export const StreamEvent = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        /** Of /v1/chat/completions. */
        delta: z.looseObject({ content: z.string().nullish() }).nullish(),
        /** Of /v1/completions. */
        text: z.string().nullish(),
        finish_reason: z.string().nullish(),
        /** Where the request asks for them: the tokens that are new with this event. */
        token_ids: z.array(z.int().min(0)).nullish(),
      }),
    )
    .default([]),
  usage: Usage.nullish(),
  brim: z.union([SketchProgress, BrimReport]).nullish(),
  error: ErrorDetail.nullish(),
})

const choice = {
  index: z.int().min(0),
  finish_reason: z.enum(['stop', 'length', 'tool_calls']),
  logprobs: z.looseObject({}).nullable(),
  token_ids: z.array(z.int().min(0)).optional(),
}
const answer = { id: z.string(), created: z.int(), model: z.string(), usage: Usage }
/** How each answer was made; of a response with one answer, beside its choices. */
const report = { brim: z.looseObject({}).optional() }

/** The response of POST /v1/chat/completions. */
export const ChatAnswer = z.object({
  ...answer,
  object: z.literal('chat.completion'),
  choices: z.array(
    z.object({
      ...choice,
      message: z.object({
        role: z.literal('assistant'),
        /** Null where the answer is nothing but calls. */
        content: z.string().nullable(),
        refusal: z.null(),
        /** Extension, as in vLLM: what the model thought first. */
        reasoning_content: z.string().optional(),
        tool_calls: z
          .array(
            z.object({
              id: z.string(),
              type: z.literal('function'),
              function: z.object({ name: z.string(), arguments: z.string() }),
            }),
          )
          .optional(),
      }),
      ...report,
    }),
  ),
  ...report,
})

export const CompletionAnswer = z.object({
  ...answer,
  object: z.literal('text_completion'),
  choices: z.array(z.object({ ...choice, text: z.string(), ...report })),
  ...report,
})

/** A model as /v1/models describes it. */
export const Model = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.int().describe('Unix seconds.'),
  owned_by: z.string(),
  max_model_len: z
    .int()
    .nullable()
    .describe('Tokens of a prompt and its answer together, as vLLM names it; null where the answer comes from another server.'),
  brim: z.object({ modes: z.array(z.enum(answerModes)).describe('Values of `brim.mode` that it can answer in now.') }),
})
export type Model = z.infer<typeof Model>
export const ModelList = z.object({ object: z.literal('list'), data: z.array(Model) })
