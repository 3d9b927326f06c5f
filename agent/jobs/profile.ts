import type { TokenEndpoint } from '../../core/answer/endpoint.ts'
import { Prompt } from '../../core/answer/prompt.ts'
import type { TextModel } from '../../core/answer/text-model.ts'
import { type Clock, nowIso } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import { greedy } from '../../core/engine/sampler.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import type { Store } from '../../core/store/open-database.ts'
import type { InstalledBundle } from '../bundles/bundle-folder.ts'
import { jobClient } from './generate.ts'
import type { JobHandler } from './job-handler.ts'

/** Of the measured answer. */
const promptTokens = 64
const answerTokens = 32
const warmUpTokens = 4
const filler = 'Is there a good place to stay near the station, with breakfast and a room for two people? '

/** How fast one model answers on this device: a prompt of 64 tokens, then 32 tokens, ends of text ignored. */
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

/** A model that cannot be opened on this device, and why. */
interface UnfitModel {
  readonly model: string
  readonly modelId: string
  readonly code: string
}

/** A migration: the last profile, as JSON. */
export const profileTable = 'CREATE TABLE profile (id INTEGER PRIMARY KEY CHECK (id = 1), profile TEXT NOT NULL) STRICT;'

/** The last profile, on disk. */
export class ProfileStore {
  readonly #read
  readonly #write

  /** @param store has `profileTable` */
  constructor(store: Store) {
    this.#read = store.prepare<[], { profile: string }>('SELECT profile FROM profile')
    this.#write = store.prepare('INSERT OR REPLACE INTO profile (id, profile) VALUES (1, ?)')
  }

  /** Null before the first profile. */
  get last(): Record<string, unknown> | null {
    const row = this.#read.get()
    return row ? (JSON.parse(row.profile) as Record<string, unknown>) : null
  }

  save(profile: Record<string, unknown>): void {
    this.#write.run(JSON.stringify(profile))
  }
}

export interface ProfileOptions {
  /** The split model. */
  readonly llm: TokenEndpoint
  readonly llmId: string
  readonly speed: DeviceSpeed
  /** The small model that is open. */
  readonly slm: SmallModel | undefined
  /** Other installed bundles; each whole model is opened for as long as it is measured. */
  readonly installed: () => Promise<readonly InstalledBundle[]>
  readonly open: (folder: string) => Promise<SmallModel & { close(): Promise<void> }>
  readonly store: ProfileStore
  readonly clock: Clock
}

/** A whole model on this device. */
export interface SmallModel {
  readonly modelId: string
  readonly endpoint: TokenEndpoint
}

/**
 * `profile`: how fast the device's models answer, measured now and stored. `llm` is the split model as this device gets it:
 * PICE's f(l) = ttftMs + (l - 1) · tpotMs. `c` of a small model is its time for an answer over the LLM's (PICE Eq. 2);
 * `slm` is the one that is open. `draftStepMs` is HAT's γ, null where nothing was drafted.
 */
export function profileDevice({ llm, llmId, speed, slm: own, installed, open, store, clock }: ProfileOptions): JobHandler {
  async function* smallModels(signal: AbortSignal, unfit: UnfitModel[]): AsyncGenerator<ModelProfile> {
    if (own) yield await measure(own, clock, signal)
    for (const { modelId, folder, manifest } of await installed()) {
      if (modelId === own?.modelId || manifest.split !== null) continue
      const model = await open(folder).catch((error: unknown) => {
        // A model that is broken or too large for this device must not keep the others from being measured.
        if (!(error instanceof BrimError)) throw error
        unfit.push({ model: manifest.card.name, modelId, code: error.code })
      })
      if (!model) continue
      try {
        yield await measure(model, clock, signal)
      } finally {
        await model.close()
      }
    }
  }

  return async (_input, _emitText, signal) => {
    const large = await measure({ modelId: llmId, endpoint: llm }, clock, signal)
    const models: (ModelProfile & { c: number })[] = []
    const unfit: UnfitModel[] = []
    for await (const small of smallModels(signal, unfit)) models.push({ ...small, c: answerMs(small) / answerMs(large) })
    const slm = own ? (models[0] ?? null) : null
    const { draftStepS, prefillTokensPerS } = speed
    const profile = {
      measuredAt: nowIso(),
      promptTokens,
      answerTokens,
      llm: large,
      slm,
      c: slm?.c ?? null,
      models,
      unfit,
      draftStepMs: draftStepS === undefined ? null : draftStepS * 1_000,
      inputPrefillTokensPerS: prefillTokensPerS ?? null,
    }
    store.save(profile)
    return profile
  }
}

/** The first answer only warms up. @throws BrimError CANCELED, and as the endpoint does */
async function measure({ modelId, endpoint }: SmallModel, clock: Clock, signal: AbortSignal): Promise<ModelProfile> {
  const request = { prompt: fillerPrompt(endpoint.model), sampling: greedy, stop: [], ignoreEos: true, client: jobClient }
  for await (const _ of endpoint.answer({ ...request, maxTokens: warmUpTokens }, signal));
  const startedMs = clock.nowMs()
  let firstMs: number | undefined
  let count = 0
  for await (const { tokens } of endpoint.answer({ ...request, maxTokens: answerTokens }, signal)) {
    firstMs ??= clock.nowMs()
    count += tokens.length
  }
  const endMs = clock.nowMs()
  if (firstMs === undefined) throw new Error('the endpoint made no token')
  const ttftMs = firstMs - startedMs
  const tpotMs = (endMs - firstMs) / Math.max(1, count - 1)
  return {
    model: endpoint.model.name,
    modelId,
    ttftMs,
    tpotMs,
    prefillTokensPerS: (1_000 * promptTokens) / ttftMs,
    decodeTokensPerS: 1_000 / tpotMs,
  }
}

/** f(l) of an answer of the measured length. */
const answerMs = ({ ttftMs, tpotMs }: ModelProfile) => ttftMs + (answerTokens - 1) * tpotMs

function fillerPrompt(model: TextModel): Prompt {
  let text = filler
  while (model.tokenizer.encode(text).length < promptTokens) text += filler
  return new Prompt({ kind: 'ids', tokens: { model, ids: model.tokenizer.encode(text).slice(0, promptTokens) } })
}
