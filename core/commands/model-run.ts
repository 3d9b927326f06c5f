import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { systemClock } from '../kit/base/clock.ts'
import { BrimError } from '../kit/base/errors.ts'
import type { Io } from '../kit/base/io.ts'
import { orAborted } from '../kit/base/or-aborted.ts'
import { nonEmpty, off } from '../kit/base/setting-kinds.ts'
import { defineCommand, type OptionsOf } from '../kit/cli/command.ts'
import { readManifest } from '../model/bundle/bundle.ts'
import { tokenizerFolder } from '../model/bundle/manifest.ts'
import type { GenerateEvent, GenerationSummary } from '../model/engine/generate.ts'
import { withDrivers } from '../model/engine/provider.ts'
import { loadChatTemplate } from '../model/text/chat-template.ts'
import { loadTokenizer, type TextTokenizer, tokenizerFile } from '../model/text/tokenizer.ts'
import { threadsOption } from './threads.ts'

const options = {
  bundle: z.string().describe('folder of the bundle'),
  prompt: z.string().optional().describe('the prompt; a chat message where the model has a chat template'),
  promptIds: z
    .string()
    .regex(/^\s*\d+\s*(,\s*\d+\s*)*$/, 'must be token ids such as 1,2,3')
    .transform((list) => list.split(',').map(Number))
    .optional()
    .meta({ description: 'the prompt as token ids: 1,2,3', conflicts: 'prompt' }),
  maxTokens: z.int().optional().meta({ description: 'max tokens of the answer', fallback: 'the rest of the context' }),
  temperature: z.number().default(0).describe('randomness of sampling; 0: always the likeliest token'),
  topK: z.number().default(0).describe('sample among the k likeliest tokens; 0: all'),
  topP: z.number().default(1).describe('sample among the likeliest tokens of this joint probability'),
  seed: z.number().default(0).describe('seed of sampling: the same seed repeats an answer'),
  stop: z
    .array(z.string())
    .default([])
    .meta({ description: 'text that ends the answer and is left out; repeatable', fallback: 'none' }),
  raw: off.describe('continue the prompt without the chat template'),
  reference: off.describe(
    "round hidden states to fp16 at the cuts: the reference's tokens, which HAT and the bridge answer with",
  ),
  threads: threadsOption,
  provider: nonEmpty.default('cpu').describe('what computes: auto, cpu, webgpu, cuda, or the name of a provider of ONNX Runtime'),
  providerPlugin: nonEmpty.optional().meta({
    description: 'library of that provider, a plug-in of ONNX Runtime',
    fallback: 'that of ONNX Runtime, or of this package',
  }),
  providerCompute: z
    .enum(['fp32', 'fp16'])
    .optional()
    .meta({ description: 'what a GPU computes in', fallback: 'fp16 for cuda, or where auto finds it correct, else fp32' }),
}
type RunOptions = OptionsOf<typeof options>

/** `brim model run`: the whole model on this machine, without agent or bridge; unrounded unless `--reference` is given. */
export const command = defineCommand({
  usage: '<bundle> --prompt "…"',
  examples: [
    ['brim model run qwen --prompt "What is a lamp?"', 'as a chat message'],
    ['brim model run demo --raw --prompt "Once upon" --temperature 0.8 --seed 7', 'continues the text itself'],
    ['brim model run demo --prompt-ids 1,2,3 --max-tokens 16 --json', 'token ids in, one JSON document out'],
    ['brim model run demo --reference --prompt "What is a lamp?"', 'the tokens with which HAT answers'],
  ],
  options,
  run: runModel,
})

async function runModel(options: RunOptions, io: Io): Promise<void> {
  const { bundle, json, maxTokens, temperature, topK, topP, seed, stop, reference, threads } = options
  const { provider, providerPlugin, providerCompute } = options
  const sampling = { temperature, topK, topP, seed }
  const [{ openBundle }, { checkSampling }, { answerBudget, generate }] = await Promise.all([
    import('../model/engine/open-bundle.ts'),
    import('../model/engine/sampler.ts'),
    import('../model/engine/generate.ts'),
  ])
  // Errors in folder or request are reported before the model is loaded.
  checkSampling(sampling)
  const { dims, split } = await readManifest(bundle)
  const tokenizer = await tokenizerOf(options)
  const promptIds = await promptOf(options, tokenizer)
  answerBudget(promptIds, maxTokens, dims)
  const opening = openBundle(bundle, {
    library: io.env.ORT_LIB,
    provider: withDrivers({ name: provider, plugin: providerPlugin, compute: providerCompute }, io.env),
    parts: 'chain',
    threads,
  })
  await using model = await orAborted(opening, io.signal, (late) => late.release())
  const events = generate(model.chain({ cuts: reference ? 'half' : 'full' }), tokenizer, {
    promptIds,
    sampling,
    stop,
    signal: io.signal,
    clock: systemClock,
    maxTokens,
  })
  const { text, summary } = await deliver(events, json ? () => {} : (piece) => io.write(piece))
  // A whole bundle has no cuts, so that both are the same.
  const states = reference && split !== null ? ('rounded' as const) : ('unrounded' as const)
  const { computing } = model
  if (json) io.out(JSON.stringify({ text, ...summary, states, computing }))
  else {
    if (!tokenizer) io.out(summary.tokenIds.join(','))
    else if (!text.endsWith('\n')) io.write('\n')
    io.err(
      `${figures(summary)} · ${states === 'rounded' ? 'reference: states rounded at the cuts' : 'states unrounded'} · ${computing.provider}: ${computing.reason}`,
    )
  }
}

/** Undefined for a bundle without a tokenizer, whose prompts and answers are token ids. */
async function tokenizerOf({ bundle, promptIds }: RunOptions): Promise<TextTokenizer | undefined> {
  const folder = join(bundle, tokenizerFolder)
  return promptIds !== undefined && !existsSync(join(folder, tokenizerFile)) ? undefined : loadTokenizer(folder)
}

async function promptOf({ bundle, prompt, promptIds, raw }: RunOptions, tokenizer: TextTokenizer | undefined): Promise<number[]> {
  if (promptIds !== undefined) return promptIds
  if (prompt === undefined || !tokenizer)
    throw new BrimError('USAGE', 'the prompt is missing', { hint: 'add --prompt "…" or --prompt-ids 1,2,3' })
  const template = raw ? undefined : await loadChatTemplate(join(bundle, tokenizerFolder))
  if (!template) return tokenizer.encode(prompt)
  // The template writes the special tokens itself.
  return tokenizer.encode(template.render([{ role: 'user', content: prompt }]), { addSpecialTokens: false })
}

async function deliver(events: AsyncIterable<GenerateEvent>, write: (piece: string) => void) {
  let text = ''
  for await (const event of events) {
    if (event.kind === 'end') return { text, summary: event.summary }
    text += event.text
    write(event.text)
  }
  throw new Error('an answer ended without its summary')
}

function figures({ tokenIds, promptTokens, tokensPerS, ttftMs, finishReason }: GenerationSummary): string {
  const speed = tokensPerS === null ? [] : [`${tokensPerS.toFixed(1)} tokens/s`]
  const first = ttftMs === null ? [] : [`first after ${Math.round(ttftMs)} ms`]
  return [`${tokenIds.length} tokens for a prompt of ${promptTokens}`, ...speed, ...first, `ended: ${finishReason}`].join(' · ')
}
