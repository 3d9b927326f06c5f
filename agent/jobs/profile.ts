import type { TokenEndpoint } from '../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import { type Clock, nowIso } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { storedJson } from '../../core/kit/store/stored-json.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import type { DeviceSpeed } from '../../core/policy/hat/device-speed.ts'
import { fillerIds } from '../slm/filler.ts'
import { type MeasuredSpeed, measureAnswer, profileSize, type WritingSpeed } from '../slm/measure.ts'
import { jobClient } from './generate.ts'
import type { JobHandler } from './job-handler.ts'

const { promptTokens, answerTokens } = profileSize
const warmUpTokens = 4

/** How fast one model answers on this device: a prompt of 64 tokens, then 128 tokens, ends of text ignored. */
export interface ModelProfile extends WritingSpeed {
  readonly model: string
  /** Null: on a server. */
  readonly modelId: string | null
}

export interface ProfiledSmallModel extends ModelProfile, Pick<MeasuredSpeed, 'parallel'> {
  /** Memory of its weights; null on a server. */
  readonly bytes: number | null
  /** Time to open it; 0 on a server. */
  readonly loadMs: number
  /** Its tokens for the text of one token of the LLM; 1 where the device cannot compare them. */
  readonly tokensPerLlmToken: number
}

/** A model that cannot be opened on this device, or a server that fails, and why. */
interface UnfitModel {
  readonly model: string
  readonly modelId: string | null
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
    return row ? ((storedJson(row.profile) ?? null) as Record<string, unknown> | null) : null
  }

  save(profile: Record<string, unknown>): void {
    this.#write.run(JSON.stringify(profile))
  }
}

/** The small models of the device. */
export interface ProfiledModels {
  /** Ascending by size. */
  readonly names: readonly string[]
  modelIdOf(name: string): string | null
  /** @throws BrimError where the model does not fit; the signal's reason */
  profile(name: string, signal: AbortSignal): Promise<ProfiledSmallModel>
}

export interface ProfileOptions {
  /** The split model; undefined: the device has none. */
  readonly llm: { readonly modelId: string; readonly endpoint: TokenEndpoint } | undefined
  readonly speed: DeviceSpeed
  /** Name of the small model that answers in place of the split one. */
  readonly own: string | undefined
  readonly small: ProfiledModels
  readonly store: ProfileStore
  readonly clock: Clock
}

/**
 * `profile`: how fast the device's models answer, measured now and stored. `llm` is the split model as this device gets it:
 * PICE's f(l) = ttftMs + (l - 1) · tpotMs. `c` of a small model is its time for an answer over the LLM's (PICE Eq. 2);
 * `slm` is the device's own. `draftStepMs` is HAT's γ, null where nothing was drafted.
 */
export function profileDevice({ llm, speed, own, small, store, clock }: ProfileOptions): JobHandler {
  return async (_input, _emitText, signal) => {
    const large = llm ? await measure(llm, clock, signal) : null
    const models: (ProfiledSmallModel & { c: number | null })[] = []
    const unfit: UnfitModel[] = []
    for (const name of small.names) {
      try {
        const profile = await small.profile(name, signal)
        models.push({ ...profile, c: large && cOf(profile, large) })
      } catch (error) {
        signal.throwIfAborted()
        // A model that is broken or too large for this device must not keep the others from being measured.
        if (!(error instanceof BrimError)) throw error
        unfit.push({ model: name, modelId: small.modelIdOf(name), code: error.code })
      }
    }
    const slm = models.find(({ model }) => model === own) ?? null
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
async function measure(
  { modelId, endpoint }: NonNullable<ProfileOptions['llm']>,
  clock: Clock,
  signal: AbortSignal,
): Promise<ModelProfile> {
  const { model } = endpoint
  const prompt = new Prompt({ kind: 'ids', tokens: { model, ids: fillerIds(model, promptTokens) } })
  const request = { prompt, sampling: greedy, stop: [], ignoreEos: true, client: jobClient }
  for await (const _ of endpoint.answer({ ...request, maxTokens: warmUpTokens }, signal));
  const speed = await measureAnswer(endpoint, { ...request, maxTokens: answerTokens }, promptTokens, clock, signal)
  return { model: model.name, modelId, ...speed }
}

/** Of answers with the same text: a small model may need more tokens for it. */
function cOf({ tokensPerLlmToken, ...small }: ProfiledSmallModel, large: ModelProfile): number {
  return answerMs(small, tokensPerLlmToken * answerTokens) / answerMs(large, answerTokens)
}

/** f(l). */
const answerMs = ({ ttftMs, tpotMs }: ModelProfile, tokens: number) => ttftMs + (tokens - 1) * tpotMs
