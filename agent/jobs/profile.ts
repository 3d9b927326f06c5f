import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { generate } from '../../core/engine/generate.ts'
import type { Sampling } from '../../core/engine/sampler.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'
import type { RoundsOptions } from '../local/answer-rounds.ts'
import type { LocalModel } from '../local/local-model.ts'
import type { JobWork } from './runner.ts'

/** Of the measured answer; the one before it only warms up. */
const promptTokens = 64
const answerTokens = 32
const warmUpTokens = 4
const greedy: Sampling = { temperature: 0, topP: 1, topK: 0, seed: 0 }
const filler = 'Is there a good place to stay near the station, with breakfast and a room for two people? '

/** How fast one model answers at this device: a prompt of 64 tokens, then 32 tokens whatever they are. */
export interface ModelProfile {
  readonly model: string
  readonly ttftMs: number
  /** Mean gap between the tokens after the first. */
  readonly tpotMs: number
  /** The prompt's tokens over the TTFT. */
  readonly prefillTokensPerS: number
  readonly decodeTokensPerS: number
}

/**
 * `profile`: what the device's models take, measured now. `llm` is the split model as this device gets it: PICE's
 * f(l) = ttftMs + (l - 1) · tpotMs; `c` is the small model's time for an answer over the LLM's (PICE Eq. 2), null without
 * a small model; `draftStepMs` is HAT's γ, null where nothing was drafted.
 */
export function profileDevice(rounds: RoundsOptions, local: LocalModel | undefined, speed: DeviceSpeed): JobWork {
  const { clock, tokenizer, manifest, run } = rounds
  async function* llmTokens(maxTokens: number, signal: AbortSignal): AsyncGenerator<number> {
    const prompt = promptOf(tokenizer)
    const request = { client: 'brim-jobs', prompt, maxTokens, sampling: greedy, eos: [], acceptedMs: clock.nowMs() }
    for await (const { tokens } of run(request, signal)) yield tokens.length
  }
  async function* slmTokens(of: LocalModel, maxTokens: number, signal: AbortSignal): AsyncGenerator<number> {
    const request = { promptIds: promptOf(of.tokenizer), maxTokens, sampling: greedy, eos: [], signal, clock }
    for await (const { kind } of generate(of.chain, undefined, request)) if (kind === 'token') yield 1
  }
  return async (_input, _say, signal) => {
    const llm = await measure(manifest.card.name, (tokens) => llmTokens(tokens, signal), clock, signal)
    const slm = local && (await measure(local.name, (tokens) => slmTokens(local, tokens, signal), clock, signal))
    const { draftStepS, prefillTokensPerS } = speed
    return {
      promptTokens,
      answerTokens,
      llm,
      slm: slm ?? null,
      c: slm ? wholeMs(slm) / wholeMs(llm) : null,
      draftStepMs: draftStepS === undefined ? null : draftStepS * 1_000,
      inputPrefillTokensPerS: prefillTokensPerS ?? null,
    }
  }
}

async function measure(
  model: string,
  answer: (maxTokens: number) => AsyncGenerator<number>,
  clock: Clock,
  signal: AbortSignal,
): Promise<ModelProfile> {
  for await (const _ of answer(warmUpTokens));
  const startedMs = clock.nowMs()
  let firstMs: number | undefined
  let tokens = 0
  for await (const count of answer(answerTokens)) {
    firstMs ??= clock.nowMs()
    tokens += count
  }
  const endMs = clock.nowMs()
  if (signal.aborted || firstMs === undefined) throw new BrimError('CANCELED', 'the measurement was stopped')
  const ttftMs = firstMs - startedMs
  const tpotMs = (endMs - firstMs) / Math.max(1, tokens - 1)
  return { model, ttftMs, tpotMs, prefillTokensPerS: (1_000 * promptTokens) / ttftMs, decodeTokensPerS: 1_000 / tpotMs }
}

const wholeMs = ({ ttftMs, tpotMs }: ModelProfile) => ttftMs + (answerTokens - 1) * tpotMs

function promptOf(tokenizer: TextTokenizer): number[] {
  let text = filler
  let ids = tokenizer.encode(text)
  while (ids.length < promptTokens) {
    text += filler
    ids = tokenizer.encode(text)
  }
  return [...ids.slice(0, promptTokens)]
}
