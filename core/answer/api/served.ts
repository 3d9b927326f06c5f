import { type AnswerMode, type BridgeMode, bridgeModes } from '../../kit/base/answer-modes.ts'
import { BrimError } from '../../kit/base/errors.ts'
import { FieldError } from '../../wire/openai/api-error.ts'
import type { Model } from '../../wire/openai/responses.ts'
import type { AnswerRequest, Endpoint, TokenEndpoint } from '../endpoint/endpoint.ts'

/** A name that every client may use for the first model of an agent or a bridge. */
export const anyModel = 'brim'

/** Limits of agent and bridge alike. */
export interface RequestLimits {
  /** Answers to one request: prompts times `n`. */
  readonly apiAnswers: number
  /** Size of a prompt, or of messages as JSON, in bytes. */
  readonly apiPromptBytes: number
}

export interface ApiModel {
  /** In requests and responses. */
  readonly name: string
  /** By which requests may ask for it too, to get an answer of just this model; absent: it runs elsewhere. */
  readonly modelId?: string | undefined
  readonly endpoint: Endpoint
  /** Where devices may expand sketches of the model's answers to conversations; absent: they may not. */
  readonly sketching?: Sketching | undefined
  /** ISO 8601. */
  readonly createdAt: string
}

/** Answers to conversations in modes other than `full`. */
export interface Sketching {
  /** In text: which part of an answer comes from which model is planned for each request. */
  readonly endpoint: Endpoint
  /** Of requests that name no mode. */
  readonly mode: BridgeMode
}

/** The modes of a device's answers (DiSCo). */
export interface Dispatching {
  /** Those that some request could be answered in now. */
  readonly modes: readonly AnswerMode[]
  /**
   * Checks before any work that the request can be answered in its mode, or in the configured one.
   * @throws FieldError REQUEST_INVALID for a mode whose sides this device lacks, or that cannot answer the request; BrimError
   * MODEL_MISSING
   */
  check(request: AnswerRequest): void
}

export interface Served {
  readonly requestLimits: RequestLimits
  /** The first one answers requests that name no model. */
  readonly models: readonly ApiModel[]
  /** The device's small model, which may continue answers that lose their bridge; absent: there is none. */
  readonly slm?: TokenEndpoint | undefined
  /** Whether it may do so for requests that do not say. Absent: it may not. */
  readonly fallback?: 'none' | 'slm' | undefined
  /** At an agent: what the modes of its answers need. Absent at a bridge. */
  readonly dispatch?: Dispatching | undefined
  /** For requests without a seed. */
  readonly nextSeed: () => number
}

/**
 * The model that a request names.
 * @throws FieldError MODEL_UNKNOWN; BrimError MODEL_MISSING where nothing is served
 */
export function modelFor(name: string | null | undefined, { models }: Served): ApiModel {
  const [first] = models
  if (!first) throw new BrimError('MODEL_MISSING', 'no model is served here')
  const found = name == null || name === anyModel ? first : models.find((model) => model.name === name || model.modelId === name)
  if (found) return found
  const served = models.map((model) => `"${model.name}"`).join(', ')
  throw new FieldError('MODEL_UNKNOWN', 'model', `unknown model "${name}"`, `served here: ${served}`)
}

/** One card for each model, under its id where another one has its name, and one for the name that always works. */
export const modelCards = (served: Served): Model[] => [
  ...served.models.map((model, at) => {
    const { name, modelId } = model
    const isTaken = served.models.slice(0, at).some((before) => before.name === name)
    return cardOf((isTaken && modelId) || name, model, served)
  }),
  ...served.models.slice(0, 1).map((first) => cardOf(anyModel, first, served)),
]

/** @throws FieldError MODEL_UNKNOWN */
export const modelCard = (id: string, served: Served): Model => cardOf(id, modelFor(id, served), served)

const cardOf = (id: string, { createdAt, endpoint: { model }, sketching }: ApiModel, { dispatch }: Served): Model => ({
  id,
  object: 'model',
  created: Math.floor(Date.parse(createdAt) / 1_000),
  owned_by: 'brim',
  max_model_len: model.tokenizer ? model.dims.contextLimit : null,
  brim: { modes: [...(dispatch?.modes ?? (sketching ? bridgeModes : ['full']))] },
})
