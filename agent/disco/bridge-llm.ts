import {
  type AnswerRequest,
  grammarFor,
  type Start,
  startOf,
  type TokenDelta,
  type TokenEndpoint,
} from '../../core/answer/endpoint/endpoint.ts'
import type { TextModel } from '../../core/answer/endpoint/text-model.ts'
import { createAttempts } from '../../core/answer/upstream/attempts.ts'
import type { UpstreamLimits } from '../../core/answer/upstream/endpoint.ts'
import type { Leaving, LeavingOf } from '../../core/answer/upstream/leaving.ts'
import type { Watchdog } from '../../core/answer/upstream/watchdog.ts'
import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Random } from '../../core/kit/base/random.ts'
import { packIds } from '../../core/wire/protocol/token-ids.ts'
import { type BridgeHttp, bridgeAsker, clientNames } from './ask-bridge.ts'
import { BridgeFailures } from './bridge-failures.ts'
import { type AnswerAsked, type ReadProgress, readTokens } from './read-tokens.ts'

export interface BridgeLlmOptions {
  /** Of this device: the bridge must serve the same. */
  readonly model: TextModel
  readonly modelId: string
  /** The bridge to ask now; undefined: its address is not known yet. */
  readonly bridge: () => BridgeHttp | undefined
  readonly leavingOf: LeavingOf
  readonly limits: Omit<UpstreamLimits, 'answerBytes'>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** Before each attempt to resume a stream that has broken off; then the answer fails. */
const resumeWaitsMs: readonly number[] = [0, 250, 1_000]
const maxFruitless = 3

/** A connection that breaks, not an answer that fails. */
const isLost = (error: unknown): boolean => !(error instanceof BrimError) || error.code === 'LINK_LOST'

/**
 * The bridge's own LLM as the remote side of this device's answers (DiSCo): prompt and answer travel as token ids, so that the
 * answer may begin and end elsewhere. The bridge sees both.
 */
export function bridgeLlm(options: BridgeLlmOptions): TokenEndpoint {
  const { model, modelId, bridge, limits, clock, random, logger } = options
  const failures = new BridgeFailures(model.name)
  const attempts = createAttempts({ limits, failures, clock, random, logger })
  const userOf = clientNames()
  const open = bridgeAsker(bridge, limits, failures)

  /** The tokens of an answer, over as many streams as it takes: a bridge keeps what is not yet read. */
  async function* read(
    first: AsyncIterable<Uint8Array>,
    asked: AnswerAsked,
    leaving: Leaving,
    watchdog: Watchdog,
    signal: AbortSignal,
  ): AsyncGenerator<TokenDelta, void> {
    const progress: ReadProgress = { tokens: 0 }
    let stream = first
    for (let fruitless = 0; ; ) {
      const { tokens } = progress
      try {
        return yield* readTokens(stream, asked, limits, watchdog, failures, progress)
      } catch (error) {
        signal.throwIfAborted()
        if (!isLost(error)) throw error
        // Streams that carry nothing are not resumed for ever.
        fruitless = progress.tokens > tokens ? 0 : fruitless + 1
        const resumed = fruitless < maxFruitless ? await resume(progress.lastId, leaving, watchdog, signal) : undefined
        if (!resumed) throw error
        logger.info({ tokens: progress.tokens }, 'the stream of an answer broke off: it is resumed')
        stream = resumed
      }
    }
  }

  /** @returns undefined: the answer cannot be resumed */
  async function resume(lastId: string | undefined, leaving: Leaving, watchdog: Watchdog, signal: AbortSignal) {
    if (lastId === undefined) return undefined
    const path = `answers/${encodeURIComponent(lastId.slice(0, lastId.lastIndexOf('/')))}/events`
    for (const waitMs of resumeWaitsMs) {
      await clock.sleep(waitMs, signal)
      try {
        return await open({ path, after: lastId, leaving }, watchdog, signal)
      } catch (err) {
        signal.throwIfAborted()
        logger.info({ err }, 'the answer could not be resumed')
        // The bridge may come back, but no other error passes.
        if (!(err instanceof BrimError) || err.retryAfterMs === undefined) return undefined
      }
    }
    return undefined
  }

  return {
    model,
    async *answer(request, signal) {
      const start = await startOf(request, model, signal)
      const body = { model: modelId, user: userOf(request.client), ...bodyOf(request, start, model) }
      const { maxTokens = Number.POSITIVE_INFINITY, traceparent } = request
      const asked = { model, maxTokens, eos: start.eos }
      const leaving = options.leavingOf(request)
      let ended = signal
      yield* attempts(
        {
          leaving,
          open(watchdog, stopping) {
            ended = stopping
            return open({ path: 'completions', body, leaving, traceparent }, watchdog, stopping)
          },
          read: (stream, watchdog) => read(stream, asked, leaving, watchdog, ended),
        },
        signal,
      )
    },
  }
}

/** Stop strings are left out: readers of the tokens look for them, as one may begin before the bridge's part of the answer. */
function bodyOf(request: AnswerRequest, { ids, answered }: Start, model: TextModel): object {
  const grammar = grammarFor(request, model)
  const { maxTokens, sampling, logprobs, tokensPerS, ignoreEos } = request
  const { temperature, topP, topK, minP = 0, presencePenalty = 0, frequencyPenalty = 0, seed } = sampling
  return {
    stream: true,
    return_token_ids: true,
    temperature,
    top_p: topP,
    top_k: topK,
    min_p: minP,
    presence_penalty: presencePenalty,
    frequency_penalty: frequencyPenalty,
    seed,
    ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
    ...(logprobs === undefined ? {} : { logprobs, return_tokens_as_token_ids: true }),
    ...(ignoreEos ? { ignore_eos: true } : {}),
    brim: {
      prompt_ids: packIds(ids, model.dims.vocab),
      mode: 'full',
      ...(grammar === undefined ? {} : { grammar }),
      ...(answered.length === 0 ? {} : { answered: answered.length }),
      ...(tokensPerS === undefined ? {} : { tokens_per_s: tokensPerS }),
    },
  }
}
