import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { z } from 'zod'
import { AnswersInProgress } from '../../core/answer/api/answers-in-progress.ts'
import { clientName, readChatRequest, readCompletionRequest } from '../../core/answer/api/request.ts'
import { serveAnswers } from '../../core/answer/api/serve-answer.ts'
import type { ApiModel } from '../../core/answer/api/served.ts'
import { AnswerMeter } from '../../core/answer/endpoint/meter.ts'
import { observe } from '../../core/answer/endpoint/observe.ts'
import type { BridgeMode } from '../../core/kit/base/answer-modes.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { nextSeed } from '../../core/kit/base/next-seed.ts'
import { chatFormat, completionFormat } from '../../core/wire/openai/response-formats.ts'
import { answerOperations } from '../../core/wire/protocol/http/answers.ts'
import { EventStreams } from '../http/event-streams.ts'
import { OwnResponse, type Routes } from '../http/router.ts'
import { createBridgeApp } from '../http/server.ts'
import { createAuthorizer } from '../identity/authorizer.ts'
import { bearerOf, type Gate } from '../identity/gate.ts'
import type { KeyStore } from '../identity/key-store.ts'
import { Quotas } from '../identity/quotas.ts'
import { answerOwner } from '../llm/endpoint.ts'
import type { Base } from './base.ts'
import { namesOf } from './http.ts'
import type { Middle } from './middle.ts'
import { openNetwork } from './network.ts'

/** To the primary. @param body as it was read */
type PassOn = (incoming: IncomingMessage, response: ServerResponse, body: string) => Promise<void>

/** API keys, as this process knows them in its role. */
type KnownKeys = Pick<KeyStore, 'keys' | 'keyOf'>
const noKeys: KnownKeys = { keys: () => [], keyOf: () => undefined }

const Mode = z.object({ brim: z.object({ mode: z.string().nullish() }).nullish() })
const paths = [
  { operation: answerOperations.chat, read: readChatRequest, format: chatFormat },
  { operation: answerOperations.completion, read: readCompletionRequest, format: completionFormat },
]

/**
 * What a process answers itself while it is a standby: by its own models and upstreams alone, for API keys that it has a copy of.
 * An answer goes on when the process becomes the primary. Sketches need the devices, whose jobs are the primary's.
 */
export interface StandbyAnswers {
  readonly inProgress: AnswersInProgress
  /** From now on these keys are valid. */
  know(keys: KnownKeys): void
  /** What is known of keys is closed: it stays until more is known. */
  freeze(): void
  /** From now on this passes on what is not answered here. */
  passOnBy(passOn: PassOn): void
  /** Whether a request may be one for this process. Others, and those of callers whom only the primary knows, are passed on. */
  accepts(incoming: IncomingMessage): boolean
  /** Answers it, or passes it on once it is read. */
  handle(incoming: IncomingMessage, response: ServerResponse): void
}

export async function openStandbyAnswers(base: Base, { authRequired }: Gate, middle: Middle): Promise<StandbyAnswers> {
  const { config, clock, closers, metrics, tracer } = base
  const logger = base.logger.child({ component: 'api' })
  const { listeners, proxies } = openNetwork(base)
  const inProgress = new AnswersInProgress('this process')
  let keys = noKeys
  let passOn: PassOn = async () => {}
  let handle: RequestListener = () => {}

  const { own, upstreams } = middle.llms
  const createdAt = new Date().toISOString()
  const models: ApiModel[] = [
    ...own.map(({ manifest: { modelId, card }, endpoint }) => ({ ...card, modelId, endpoint })),
    ...upstreams.endpoints.map((endpoint) => ({ name: endpoint.model.name, endpoint, createdAt })),
  ].map((model) => ({ ...model, endpoint: observe(model.endpoint, clock, (asked) => metrics.onAnswer(asked)) }))
  const served = { models, nextSeed, requestLimits: config.limits }
  const meter = new AnswerMeter(clock)
  const maxBodyBytes = config.limits.apiBodyBytes
  const routes: Routes = (router) => {
    for (const { operation, read, format } of paths)
      router.serve({ ...operation, body: z.unknown(), maxBodyBytes }, async ({ body, headers, caller, reply, id, stopping }) => {
        if (operation === answerOperations.chat && !isFull(body, config.answerMode)) {
          reply.hijack()
          await passOn(reply.request.raw, reply.raw, JSON.stringify(body))
          return new OwnResponse()
        }
        const { client, actor } = caller
        const request = read(body, served, { client, tokensPerS: headers['x-brim-tokens-per-s'] })
        caller.takeAnswers(request.answers.length)
        const options = { clock, meter, logger: logger.child({ client: actor.who }), parallel: true, tracer, stopping }
        await inProgress.run(() => serveAnswers(options, format, request, reply, id))
        return new OwnResponse()
      })
  }
  const authorizer = createAuthorizer({
    // Proofs of devices are the primary's.
    gate: { authRequired, subjectOf: () => undefined, isPresent: () => false },
    store: { keys: () => keys.keys(), keyOf: (text) => keys.keyOf(text), record() {} },
    quotas: new Quotas({ jobsOf: () => undefined, countJobs() {} }, config.limits, clock, () => Date.now()),
    onKeyEnd: (key) => middle.serving.purge(answerOwner(clientName(key))),
    clock,
    logger,
  })
  closers.push(authorizer.close)
  const stopping = new AbortController()
  const app = await createBridgeApp({
    ...{ host: config.host, names: namesOf(config), origins: config.allowedOrigins ?? [], limits: listeners.http, proxies },
    ...{ routes: [routes], authorizer, streams: new EventStreams(clock), stopping: stopping.signal, clock, logger },
    createServer(handler) {
      handle = handler
      // The standby listens.
      return createServer()
    },
  })
  closers.push(() => app.close())
  closers.push(() => stopping.abort(new BrimError('CANCELED', 'the bridge is shutting down')))
  return {
    inProgress,
    know(known) {
      keys = known
    },
    freeze() {
      const known = keys.keys()
      keys = { keys: () => known, keyOf: () => undefined }
    },
    passOnBy(next) {
      passOn = next
    },
    accepts({ method, url, headers }) {
      if (method !== 'POST' || !paths.some(({ operation }) => operation.path === url) || inProgress.problem) return false
      return !authRequired || keys.keyOf(bearerOf(headers.authorization) ?? '') !== undefined
    },
    handle: (incoming, response) => handle(incoming, response),
  }
}

/** Whether a conversation is answered by the model alone, without a plan. */
function isFull(body: unknown, usual: BridgeMode): boolean {
  const asked = Mode.safeParse(body)
  return asked.success && (asked.data.brim?.mode ?? usual) === 'full'
}
