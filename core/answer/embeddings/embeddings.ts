import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import { unitVector } from '../../model/engine/embedder.ts'
import { FieldError } from '../../wire/openai/api-error.ts'
import { EmbeddingsRequest, type EmbeddingsResponse } from '../../wire/openai/embeddings.ts'
import { parseRequest } from '../../wire/openai/request.ts'
import type { Model } from '../../wire/openai/responses.ts'
import { RequestRefused } from '../api/http-errors.ts'
import { anyModel, type RequestLimits } from '../api/served.ts'
import { Slots } from '../upstream/slots.ts'
import type { EmbeddingModel } from './embedding-model.ts'

type Input = z.infer<typeof EmbeddingsRequest>['input']

interface EmbeddingOptions {
  /** Undefined: there is none. */
  readonly model: EmbeddingModel | undefined
  readonly limits: Pick<RequestLimits, 'apiPromptBytes'>
}

/** `/v1/embeddings`, with a bounded number of requests at once. */
export class Embeddings {
  readonly #options: EmbeddingOptions
  readonly #slots = new Slots({ requests: 16, queue: 256 })

  constructor(options: EmbeddingOptions) {
    this.#options = options
  }

  /** Of the model, if there is one. */
  get cards(): Model[] {
    const { model } = this.#options
    if (!model) return []
    const { text, createdAt } = model
    const created = Math.floor(Date.parse(createdAt) / 1_000)
    return [
      { id: text.name, object: 'model', created, owned_by: 'brim', max_model_len: text.dims.contextLimit, brim: { modes: [] } },
    ]
  }

  /**
   * Stops when the client leaves, or `stopping` is aborted.
   * @throws FieldError REQUEST_INVALID, MODEL_UNKNOWN; BrimError QUEUE_FULL, CONTEXT_OVERFLOW; RequestRefused without a model
   */
  async respond(body: unknown, client: string, { raw }: FastifyReply, stopping: AbortSignal): Promise<EmbeddingsResponse> {
    const left = new AbortController()
    raw.once('close', () => left.abort(new BrimError('CANCELED', 'the client disconnected')))
    const signal = AbortSignal.any([left.signal, stopping])
    const { model } = this.#options
    if (!model)
      throw new RequestRefused(404, 'no model for embeddings is served here', {
        hint: 'start with --embedding and a bundle of "brim model build --embedding auto"',
      })
    const request = parseRequest(EmbeddingsRequest, body)
    checkModel(request.model, model)
    const { width } = model.embedder
    const { dimensions = width, encoding_format: format } = request
    if (dimensions && dimensions > width)
      throw new FieldError('REQUEST_INVALID', 'dimensions', `"dimensions" is ${dimensions}; the model has ${width}`)
    const free = await this.#slots.take(signal)
    try {
      const texts = await this.#tokensOf(request.input, model, client, signal)
      const embeddings = await model.embedder.embed(texts, signal)
      const tokens = texts.reduce((sum, { length }) => sum + length, 0)
      return {
        object: 'list',
        data: embeddings.map((whole, index) => {
          const vector = dimensions === null || dimensions === width ? whole : unitVector(whole.subarray(0, dimensions))
          return { object: 'embedding', index, embedding: format === 'base64' ? base64(vector) : [...vector] }
        }),
        model: model.text.name,
        usage: { prompt_tokens: tokens, total_tokens: tokens },
      }
    } finally {
      free()
    }
  }

  async #tokensOf(input: Input, { text }: EmbeddingModel, client: string, signal: AbortSignal): Promise<(readonly number[])[]> {
    const { contextLimit, vocab } = text.dims
    const all: (readonly number[])[] = []
    for (const [at, each] of listed(input).entries()) {
      const param = Array.isArray(input) && typeof input[0] !== 'number' ? `input.${at}` : 'input'
      const ids = typeof each === 'string' ? await this.#encode(each, text, param, client, signal) : each
      const stray = ids.find((id) => id >= vocab)
      if (stray !== undefined)
        throw new FieldError('REQUEST_INVALID', param, `"${param}" has token id ${stray}; this model's ids are 0 to ${vocab - 1}`)
      if (ids.length === 0) throw new FieldError('REQUEST_INVALID', param, `"${param}" has no tokens`)
      if (ids.length > contextLimit)
        throw new BrimError('CONTEXT_OVERFLOW', `"${param}" has ${ids.length} tokens; the model's context is ${contextLimit}`, {
          hint: 'divide the text',
        })
      all.push(ids)
    }
    return all
  }

  #encode(given: string, text: EmbeddingModel['text'], param: string, client: string, signal: AbortSignal) {
    const { apiPromptBytes } = this.#options.limits
    if (Buffer.byteLength(given) > apiPromptBytes)
      throw new FieldError('REQUEST_INVALID', param, `"${param}" is longer than ${apiPromptBytes} bytes`, 'divide the text')
    return text.prompts.encode({ kind: 'text', text: given }, client, signal)
  }
}

const listed = (input: Input): readonly (string | readonly number[])[] => {
  if (typeof input === 'string') return [input]
  return typeof input[0] === 'number' ? [input as number[]] : (input as (string | number[])[])
}

function checkModel(name: string | null | undefined, { text, modelId }: EmbeddingModel): void {
  if (name == null || [anyModel, text.name, modelId].includes(name)) return
  throw new FieldError('MODEL_UNKNOWN', 'model', `unknown model "${name}"`, `embeddings are made here by "${text.name}"`)
}

/** float32 in little endian, whatever the machine's own order. */
function base64(vector: Float32Array): string {
  const bytes = Buffer.alloc(4 * vector.length)
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, 4 * at)
  return bytes.toString('base64')
}
