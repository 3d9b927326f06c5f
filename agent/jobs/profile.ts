import { type Clock, nowIso } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Sampling } from '../../core/engine/sampler.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { Store } from '../../core/store/open-database.ts'
import type { TextTokenizer } from '../../core/text/tokenizer.ts'
import type { RoundsOptions } from '../answer/fallback.ts'
import type { InstalledBundle } from '../bundles/bundle-folder.ts'
import { answerLocally } from '../slm/local-answer.ts'
import type { LocalModel } from '../slm/local-model.ts'
import type { JobHandler } from './runner.ts'

/** Of the measured answer; the one before it only warms up. */
const promptTokens = 64
const answerTokens = 32
const warmUpTokens = 4
const greedy: Sampling = { temperature: 0, topP: 1, topK: 0, seed: 0 }
const filler = 'Is there a good place to stay near the station, with breakfast and a room for two people? '

/** How fast one model answers at this device: a prompt of 64 tokens, then 32 tokens whatever they are. */
export interface ModelProfile {
  readonly model: string
  readonly modelId: string
  readonly ttftMs: number
  /** Mean gap between the tokens after the first. */
  readonly tpotMs: number
  /** The prompt's tokens over the TTFT. */
  readonly prefillTokensPerS: number
  readonly decodeTokensPerS: number
}

/** One that cannot be opened here, and why. */
interface UnfitModel {
  readonly model: string
  readonly modelId: string
  readonly code: string
}

/** A migration: what was measured last, as JSON. */
export const profileTable = 'CREATE TABLE profile (id INTEGER PRIMARY KEY CHECK (id = 1), profile TEXT NOT NULL) STRICT;'

/** The device's own memory of its last profile. */
export class KeptProfile {
  readonly #read
  readonly #write

  /** @param store must have had `profileTable` */
  constructor(store: Store) {
    this.#read = store.prepare<[], { profile: string }>('SELECT profile FROM profile')
    this.#write = store.prepare('INSERT OR REPLACE INTO profile (id, profile) VALUES (1, ?)')
  }

  /** null: none was measured. */
  get last(): Record<string, unknown> | null {
    const row = this.#read.get()
    return row ? (JSON.parse(row.profile) as Record<string, unknown>) : null
  }

  keep(profile: Record<string, unknown>): void {
    this.#write.run(JSON.stringify(profile))
  }
}

export interface ProfileOptions {
  readonly rounds: RoundsOptions
  readonly speed: DeviceSpeed
  /** The small model that is open. */
  readonly local: LocalModel | undefined
  /** Whole models that are installed beside it; each is opened for as long as it is measured. */
  readonly installed: () => Promise<readonly InstalledBundle[]>
  readonly open: (folder: string) => Promise<LocalModel & { close(): Promise<void> }>
  readonly kept: KeptProfile
}

/**
 * `profile`: what the device's models take, measured now, told and kept. `llm` is the split model as this device gets it:
 * PICE's f(l) = ttftMs + (l - 1) · tpotMs. Of each small model `c` is its time for an answer over the LLM's (PICE Eq. 2);
 * `slm` is the one that is open. `draftStepMs` is HAT's γ, null where nothing was drafted.
 */
export function profileDevice({ rounds, speed, local, installed, open, kept }: ProfileOptions): JobHandler {
  const { clock, tokenizer, manifest, run } = rounds
  async function* llmTokens(maxTokens: number, signal: AbortSignal): AsyncGenerator<number> {
    const prompt = promptOf(tokenizer)
    const request = { client: 'brim-jobs', prompt, maxTokens, sampling: greedy, eos: [], acceptedMs: clock.nowMs() }
    for await (const { tokens } of run(request, signal)) yield tokens.length
  }
  async function* slmTokens(of: LocalModel, maxTokens: number, signal: AbortSignal): AsyncGenerator<number> {
    const request = { promptIds: promptOf(of.tokenizer), maxTokens, sampling: greedy, eos: [], signal, clock }
    for await (const { kind } of answerLocally(of, undefined, request)) if (kind === 'token') yield 1
  }
  const measureLocal = (of: LocalModel, signal: AbortSignal) =>
    measure({ model: of.name, modelId: of.modelId }, (tokens) => slmTokens(of, tokens, signal), clock, signal)

  async function* smallModels(signal: AbortSignal, unfit: UnfitModel[]): AsyncGenerator<ModelProfile> {
    if (local) yield await measureLocal(local, signal)
    for (const { modelId, folder, manifest: own } of await installed()) {
      if (modelId === local?.modelId || own.split !== null) continue
      const model = await open(folder).catch((error: unknown) => {
        // One that is too large for this device, or broken, says nothing about the others.
        if (!(error instanceof BrimError)) throw error
        unfit.push({ model: own.card.name, modelId, code: error.code })
      })
      if (!model) continue
      try {
        yield await measureLocal(model, signal)
      } finally {
        await model.close()
      }
    }
  }

  return async (_input, _say, signal) => {
    const named = { model: manifest.card.name, modelId: manifest.modelId }
    const llm = await measure(named, (tokens) => llmTokens(tokens, signal), clock, signal)
    const models: (ModelProfile & { c: number })[] = []
    const unfit: UnfitModel[] = []
    for await (const slm of smallModels(signal, unfit)) models.push({ ...slm, c: wholeMs(slm) / wholeMs(llm) })
    const slm = local ? (models[0] ?? null) : null
    const { draftStepS, prefillTokensPerS } = speed
    const profile = {
      measuredAt: nowIso(),
      promptTokens,
      answerTokens,
      llm,
      slm,
      c: slm?.c ?? null,
      models,
      unfit,
      draftStepMs: draftStepS === undefined ? null : draftStepS * 1_000,
      inputPrefillTokensPerS: prefillTokensPerS ?? null,
    }
    kept.keep(profile)
    return profile
  }
}

async function measure(
  named: Pick<ModelProfile, 'model' | 'modelId'>,
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
  return { ...named, ttftMs, tpotMs, prefillTokensPerS: (1_000 * promptTokens) / ttftMs, decodeTokensPerS: 1_000 / tpotMs }
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
