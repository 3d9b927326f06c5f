import type { Endpoint, TokenEndpoint } from '../answer/endpoint.ts'
import { BrimError } from '../base/errors.ts'
import { FieldError } from '../openai/api-error.ts'

/** A name that every client may use for the first model of an agent or a bridge. */
export const anyModel = 'brim'

/** Limits of agent and bridge alike. */
export interface RequestLimits {
  /** Answers to one request: prompts times `n`. */
  readonly apiAnswers: number
  /** Size of a prompt, or of messages as JSON, in bytes. */
  readonly apiPromptBytes: number
  /** Messages of a conversation. */
  readonly apiPromptMessages: number
}

/** A model that answers requests. */
export interface ServedModel {
  /** What the model is called here; responses name the first. */
  readonly names: readonly [string, ...string[]]
  readonly endpoint: Endpoint
  /** ISO 8601. */
  readonly createdAt: string
}

/** What the API serves. */
export interface Served {
  readonly requestLimits: RequestLimits
  /** The first one answers requests that name no model. */
  readonly models: readonly ServedModel[]
  /** The device's small model, which may continue answers that lose their bridge; absent: there is none. */
  readonly slm?: TokenEndpoint | undefined
  /** For requests without a seed. */
  readonly nextSeed: () => number
}

/**
 * The model that a request names.
 * @throws FieldError MODEL_UNKNOWN; BrimError MODEL_MISSING where nothing is served
 */
export function modelFor(name: string | null | undefined, { models }: Served): ServedModel {
  const [first] = models
  if (!first) throw new BrimError('MODEL_MISSING', 'no model is served here')
  const found = name == null ? first : models.find(({ names }) => names.includes(name))
  if (found) return found
  const served = models.map(({ names }) => `"${names[0]}"`).join(', ')
  throw new FieldError('MODEL_UNKNOWN', 'model', `unknown model "${name}"`, `served here: ${served}`)
}

/** A model as `/v1/models` describes it. */
export interface ModelCard {
  readonly id: string
  readonly object: 'model'
  /** Unix seconds. */
  readonly created: number
  readonly owned_by: 'brim'
}

/** One card for each name. */
export const modelCards = ({ models }: Served): ModelCard[] =>
  models.flatMap(({ names, createdAt }) => names.map((id) => cardOf(id, createdAt)))

/** @throws FieldError MODEL_UNKNOWN */
export const modelCard = (id: string, served: Served): ModelCard => cardOf(id, modelFor(id, served).createdAt)

const cardOf = (id: string, createdAt: string): ModelCard => ({
  id,
  object: 'model',
  created: Math.floor(Date.parse(createdAt) / 1_000),
  owned_by: 'brim',
})
