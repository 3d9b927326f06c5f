import { ArrivalQueue } from '../../kit/base/arrival-queue.ts'
import type { Clock } from '../../kit/base/clock.ts'
import { KeptConnections } from '../../kit/base/kept-connections.ts'
import type { Logger } from '../../kit/base/logger.ts'
import type { Random } from '../../kit/base/random.ts'
import { sampledWarnings } from '../../kit/base/sampled-warnings.ts'
import { shownUrl } from '../../kit/base/shown-url.ts'
import { ServerCounts } from '../../policy/upstream/server-counts.ts'
import { ServerPace } from '../../policy/upstream/server-pace.ts'
import type { Endpoint, TextDelta } from '../endpoint/endpoint.ts'
import type { RemoteModel } from '../endpoint/text-model.ts'
import { type AttemptLimits, createAttempts } from './attempts.ts'
import { BilledAnswer } from './billed-answer.ts'
import { UpstreamFailures } from './failure.ts'
import type { LeavingOf } from './leaving.ts'
import { type OpenLimits, openStream } from './open-stream.ts'
import { type AnswerLimits, readAnswer } from './read-answer.ts'
import { promptTokensOf, upstreamRequest } from './request-body.ts'
import type { Watchdog } from './watchdog.ts'

export interface UpstreamLimits extends AttemptLimits, OpenLimits, AnswerLimits {}

export interface UpstreamOptions {
  /** Base URL of OpenAI's API, such as http://127.0.0.1:8000/v1 */
  readonly url: string
  /** As the upstream calls it. */
  readonly model: string
  /** What messages call it. Default: the upstream of the model. */
  readonly serverName?: string
  /** Read for each attempt, so that a key can be replaced. @throws BrimError CONFIG_INVALID */
  readonly key: () => string | undefined
  /** Whether answers carry the log probabilities of their tokens, where the server gives them. Default: false. */
  readonly scored?: boolean
  /** Whether the server goes on after a last message of the assistant, and so with another endpoint's answer. Default: false. */
  readonly continues?: boolean
  readonly leavingOf: LeavingOf
  readonly limits: UpstreamLimits
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** Names of other models that one server may answer with. */
const maxOthers = 8

/** A server with OpenAI's API as an endpoint. */
export function upstreamEndpoint(options: UpstreamOptions): Endpoint {
  const { url, model: name, serverName, key, limits, clock, random, logger } = options
  const model: RemoteModel = { name }
  const others = new Map<string, RemoteModel>()

  /** The model that a server says it answers with: where it is another one, reports name it. */
  function modelNamed(given: string): RemoteModel {
    const known = given === name ? model : others.get(given)
    // A server must not fill the memory with names.
    if (known || others.size >= maxOthers) return known ?? model
    logger.warn({ asked: name, answers: given }, 'the upstream answers with another model than it was asked for')
    const other = { name: given }
    others.set(given, other)
    return other
  }
  const failures = new UpstreamFailures(name, serverName)
  const attempts = createAttempts({ limits, failures, clock, random, logger })
  const warn = sampledWarnings(logger, clock)
  const connections = new KeptConnections()
  const habits = { counts: new ServerCounts(), pace: new ServerPace() }

  return {
    model,
    async *answer(request, signal) {
      const leaving = options.leavingOf(request)
      const asked = { ...upstreamRequest(request, name, options), leaving, traceparent: request.traceparent }
      const { maxTokens = Number.POSITIVE_INFINITY } = request
      const promptTokens = promptTokensOf(request)
      const billed = new BilledAnswer(request.billing, promptTokens, habits, clock)
      const reading = {
        model,
        modelNamed,
        maxTokens,
        promptTokens,
        counts: habits.counts,
        onEvent: (bytes: number, tokens: number) => billed.came(bytes, tokens),
        onExcess(message: string) {
          habits.pace.exceeded()
          warn({ model: name, url: shownUrl(url), maxTokens: request.maxTokens ?? null }, message)
        },
      }
      async function open(watchdog: Watchdog, stopping: AbortSignal) {
        const body = await openStream({ url, key: key(), connections }, asked, limits, watchdog, failures, stopping, billed)
        billed.responded()
        return body
      }
      /** As fast as it comes: what a server has sent is billed, whether or not its reader has taken it. */
      async function* read(body: AsyncIterable<Uint8Array>, watchdog: Watchdog) {
        const arrivals = new ArrivalQueue<TextDelta>()
        // It ends with the body, if its reader does not wait for the end.
        void (async () => {
          for await (const delta of readAnswer(body, reading, limits, watchdog, failures)) {
            if (delta.end) billed.ended(delta)
            arrivals.push(delta)
          }
          arrivals.done()
        })().catch((error) => arrivals.fail(error))
        for (let next = await arrivals.next(); next; next = await arrivals.next()) yield next
      }
      let hasFailed = false
      try {
        yield* attempts({ leaving, open, read, mayBeBilled: () => billed.mayBeBilled }, signal)
      } catch (error) {
        hasFailed = !signal.aborted
        throw error
      } finally {
        if (!hasFailed) billed.left()
      }
    },
  }
}
