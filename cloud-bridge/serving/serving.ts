import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Sequence } from '../../core/engine/contract.ts'
import { firstCapacity } from '../../core/engine/sequence.ts'
import type { KvLimits, KvUsage } from '../../core/policy/admission/kv.ts'
import { sessionWaitMs } from '../../core/policy/admission/session.ts'
import { clientOf } from '../../core/policy/fairness/client.ts'
import type { ServingPolicy } from '../../core/policy/serving/policy.ts'
import { reuseOf } from '../../core/policy/serving/prefix-reuse.ts'
import { AnswerQueue } from './answer-queue.ts'
import { KvMemory } from './kv-memory.ts'
import { KvTiers, type KvTiersOptions } from './kv-tiers.ts'
import { PrefixCache } from './prefix-cache.ts'
import type { SequenceKind, ServedModel } from './served-model.ts'
import type { EndedStep, ServingMetrics } from './serving-metrics.ts'
import { type StepLimits, StepLoop } from './step-loop.ts'
import { type RowHost, RowStream, type Stream } from './stream.ts'
import { longestPrefix, type TokenPrefix } from './token-prefixes.ts'
import { ModelTokenStream, type TokenHost, type TokenRequest, type TokenStream } from './token-stream.ts'

export interface ServingOptions {
  readonly model: ServedModel
  readonly policy: ServingPolicy
  readonly step: StepLimits
  readonly kv: Omit<KvLimits, 'bytesPerPosition' | 'firstCapacity'> & {
    readonly budgetBytes: number
    /** KV memory of one owner, at most. */
    readonly ownerBytes: number
    /** Cached prefixes expire after this long; 0: nothing is cached. */
    readonly prefixMs: number
  }
  readonly tiers: Pick<KvTiersOptions, 'slow' | 'writeThrough' | 'overlap'>
  /** More rows than this count as a prompt, whatever they are. */
  readonly maxDecodeRows: number
  /** Rows of devices wait so long for memory that others hold. */
  readonly maxMemoryWaitMs: number
  /** Answers that wait for their first step, at most. */
  readonly maxWaitingAnswers: number
  readonly clock: Clock
  readonly logger: Logger
  readonly onStep?: (step: EndedStep) => void
  /** Counters of several models; absent: its own. */
  readonly metrics?: ServingMetrics | undefined
}

/** A prefix that a new stream begins with: the first `length` rows of what the handle leads to. */
export interface Resume {
  readonly handle: string
  readonly length: number
}

export interface OpenedStream {
  readonly stream: Stream
  /** Whether it took the cached prefix over, rather than a copy or nothing. */
  readonly moved: boolean
}

export interface Serving {
  readonly metrics: Readonly<ServingMetrics>
  readonly memory: KvUsage & { readonly cachedBytes: number }
  /** Of the slow tier; undefined where there is none. */
  readonly slow: KvUsage | undefined
  /** Streams that were preempted, and bytes of KV that went to the slow tier and back, since the start. */
  readonly transfers: { readonly preemptions: number; readonly savedBytes: number; readonly loadedBytes: number }
  /** Answers that wait for their first step. */
  readonly waitingAnswers: number
  /** The longest answer that the memory holds, prompt included; 0 where the model serves none. */
  readonly maxPositions: number
  /** Why the owner gets no more KV memory, for a message. */
  shortageOf(owner: string): string
  /** Waits a while for others to make way. @returns undefined where there is no KV memory for another stream */
  open(owner: string, resume?: Resume): Promise<OpenedStream | undefined>
  /**
   * Begins an answer of the whole model. Its first step waits until the policy admits it.
   * @throws BrimError QUEUE_FULL
   */
  openTokens(owner: string, request: TokenRequest): TokenStream
  /** Deletes one cached prefix. */
  drop(handle: string): void
  /** Deletes all prefixes of an owner, and of those whose names are its own and a path after it; their open answers leave none. */
  purge(owner: string): void
  /** Gives memory of the slow tier that no stream uses back to the system, until it is used again. */
  releaseFree(): void
  /** Rejects what waits, lets running steps finish, releases the cached prefixes. Streams are closed by their owners. */
  close(): Promise<void>
}

/** One model that serves many streams. Knows rows, token ids and KV, but neither their senders nor the transport. */
export function createServing({ model, policy, step, clock, logger, onStep, metrics, ...options }: ServingOptions): Serving {
  const { prefixMs } = options.kv
  const prefixes = new PrefixCache<RowStream>()
  const kv = new KvMemory({ ...options.kv, firstCapacity }, prefixes)
  const answers = new AnswerQueue(options.maxWaitingAnswers, clock)
  const tiers = new KvTiers({ ...options.tiers, memory: kv, clock, logger, onTransfer: () => loop.planSoon() })
  const loop = new StepLoop({ model, policy, kv, tiers, limits: step, clock, onStep, metrics })
  const stop = new AbortController()
  const tokenStreams = new Set<ModelTokenStream>()
  let streams = 0
  let expiring: Promise<void> | undefined
  const host: RowHost & TokenHost = {
    kv,
    tiers,
    clock,
    maxDecodeRows: options.maxDecodeRows,
    contextLimit: options.kv.contextLimit,
    maxMemoryWaitMs: options.maxMemoryWaitMs,
    canFree: (stream, bytes) => loop.couldFree(stream) >= bytes,
    enqueue: (stream) => loop.enqueue(stream),
    withdraw: (stream) => loop.withdraw(stream),
    remove(stream) {
      if (stream instanceof RowStream) prefixes.forget(stream)
      if (stream instanceof ModelTokenStream) tokenStreams.delete(stream)
      answers.leave(stream.id)
      loop.remove(stream)
    },
    cache,
    begin: (stream) => answers.leave(stream.id),
    beginWith,
    prefixLength: (owner, ids) => longestOf(owner, ids)?.length ?? 0,
    cacheTokens(owner, sequence, ids) {
      if (ids.length === 0) kv.release(sequence)
      else cache(owner, sequence, ids)
    },
  }

  function cache(owner: string, sequence: Sequence, ids?: readonly number[]): string | undefined {
    if (prefixMs === 0 || stop.signal.aborted) {
      kv.release(sequence)
      return undefined
    }
    const handle = prefixes.add(owner, sequence, clock.nowMs(), ids)
    expiring ??= expirePrefixes()
    return handle
  }

  async function expirePrefixes(): Promise<void> {
    for (let { oldest } = prefixes; oldest && !stop.signal.aborted; { oldest } = prefixes) {
      const leftMs = oldest.sinceMs + prefixMs - clock.nowMs()
      if (leftMs <= 0) kv.evictPrefix(oldest.handle)
      else await clock.sleep(leftMs, stop.signal).catch(() => {})
    }
    expiring = undefined
  }

  /** The KV cached under this handle, if a stream should take it over rather than copy it. */
  function take(owner: string, { handle, length }: Resume): Sequence | undefined {
    const found = prefixes.find(owner, handle)
    if (found?.kind !== 'cached' || reuseOf(found.sequence.length, length) !== 'take') return undefined
    found.sequence.truncate(length)
    return found.sequence
  }

  async function copyInto(sequence: Sequence, owner: string, { handle, length }: Resume): Promise<void> {
    if (!prefixes.find(owner, handle) || !kv.grow(sequence, length)) return
    // Looked up again: growing may have evicted it.
    const found = prefixes.find(owner, handle)
    if (found?.kind === 'taken') await found.stream.copyPrefixTo(sequence, length)
    else if (found && reuseOf(found.sequence.length, length) !== 'none') sequence.copyPrefix(found.sequence, length)
  }

  function* prefixesOf(owner: string): Iterable<TokenPrefix> {
    yield* prefixes.withIds(owner)
    for (const stream of tokenStreams) if (stream.owner === owner && stream.prefix) yield stream.prefix
  }

  /** The last id's row yields the logits of the next token. */
  const longestOf = (owner: string, ids: readonly number[]) => longestPrefix(prefixesOf(owner), ids.slice(0, -1))

  function beginWith(owner: string, ids: readonly number[], empty: Sequence): Sequence {
    const found = longestOf(owner, ids)
    if (!found) return empty
    const { length } = found
    const { handle, sequence } = found.prefix
    if (handle !== undefined && reuseOf(sequence.length, length) === 'take') {
      prefixes.delete(handle)
      kv.release(empty)
      sequence.truncate(length)
      return sequence
    }
    const fits = kv.grow(empty, ids.length)
    // Growing may have evicted it.
    const isThere = handle === undefined || prefixes.find(owner, handle) !== undefined
    try {
      if (fits && isThere) empty.copyPrefix(sequence, length)
    } catch (err) {
      // It leaves no rows, so that the stream computes them.
      logger.warn({ err }, 'prefix not copied')
    }
    return empty
  }

  function start(owner: string, sequence: Sequence, residency: 'resident' | 'evicted'): RowStream {
    streams += 1
    const stream = new RowStream(streams, owner, sequence, residency, host)
    loop.add(stream)
    return stream
  }

  return {
    metrics: loop.metrics,
    get memory() {
      return { ...kv.usage, cachedBytes: kv.cachedBytes }
    },
    get slow() {
      return tiers.slow?.usage
    },
    transfers: tiers.counts,
    get waitingAnswers() {
      return answers.length
    },
    maxPositions: model.tokens ? kv.positionsOf(model.tokens) : 0,
    shortageOf: (owner) => kv.shortageOf(owner),
    async open(owner, resume) {
      const taken = resume && take(owner, resume)
      if (taken) {
        const stream = start(owner, taken, 'resident')
        prefixes.markTaken(resume.handle, stream)
        return { stream, moved: true }
      }
      const sequence = kv.createWithinShare(owner, kindOf(model.rows, 'hidden states'))
      if (kv.begin(sequence)) {
        if (resume) await copyInto(sequence, owner, resume).catch((err) => logger.warn({ err }, 'prefix not copied'))
        return { stream: start(owner, sequence, 'resident'), moved: false }
      }
      const stream = start(owner, sequence, 'evicted')
      if (await stream.admit(options.kv.firstPositions, sessionWaitMs)) return { stream, moved: false }
      await stream.close()
      return undefined
    },
    openTokens(owner, request) {
      const kind = kindOf(model.tokens, 'token ids')
      const entered = answers.enter(streams + 1, clientOf(owner))
      streams += 1
      if (entered) loop.get(entered.displaced)?.failWaiting(entered.error)
      const sequence = kv.createEmpty(owner, kind)
      const stream = new ModelTokenStream(streams, owner, sequence, request, host)
      tokenStreams.add(stream)
      loop.add(stream)
      loop.enqueue(stream)
      return stream
    },
    drop: (handle) => kv.evictPrefix(handle),
    purge(owner) {
      const isOwned = (name: string) => name === owner || name.startsWith(`${owner}/`)
      for (const stream of tokenStreams) if (isOwned(stream.owner)) stream.leaveNothing()
      for (const { sequence } of prefixes.deleteOwned(isOwned)) kv.release(sequence)
    },
    releaseFree: () => tiers.slow?.releaseFree(),
    async close() {
      stop.abort()
      await loop.close()
      await expiring
      for (const { handle } of [...kv.cached()]) kv.evictPrefix(handle)
      await tiers.close()
    },
  }
}

function kindOf(kind: SequenceKind | undefined, rows: string): SequenceKind {
  if (!kind) throw new Error(`the model serves no streams of ${rows}`)
  return kind
}
