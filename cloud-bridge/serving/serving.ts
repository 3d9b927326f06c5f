import type { Clock } from '../../core/kit/base/clock.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { sampledWarnings } from '../../core/kit/base/sampled-warnings.ts'
import { kvBlockPositions } from '../../core/model/engine/sequence.ts'
import { blockwiseKv, type KvLimits, type KvUsage, positionsWithin } from '../../core/policy/admission/kv.ts'
import type { StateMonitor } from '../../core/policy/estimate/state-monitor.ts'
import type { Recording } from '../../core/policy/recording.ts'
import type { ServingPolicy } from '../../core/policy/serving/policy.ts'
import { reuseOf } from '../../core/policy/serving/prefix-reuse.ts'
import { ServingMachine } from '../../core/policy/serving/serving-machine.ts'
import type { ServingRules, TierOptions } from '../../core/policy/serving/serving-rules.ts'
import type { EngineStream } from './engine-stream.ts'
import { PrefixCache } from './prefix-cache.ts'
import type { SequenceKind, ServedModel } from './served-model.ts'
import type { EndedStep, ServingMetrics } from './serving-metrics.ts'
import type { SlowTier } from './slow-tier.ts'
import { StepLoop } from './step-loop.ts'
import { type RowHost, RowStream, type Stream } from './stream.ts'
import { longestPrefix, type TokenPrefix } from './token-prefixes.ts'
import { type AnswerView, ModelTokenStream, type TokenHost, type TokenStream, type TokenStreamRequest } from './token-stream.ts'

export interface ServingOptions {
  readonly model: ServedModel
  readonly policy: ServingPolicy
  /** What one step holds, and steps under way at once: as many as the middle has stages. */
  readonly step: { readonly rows: number; readonly streams: number; readonly pipeline: number }
  readonly kv: Omit<KvLimits, 'bytesPerPosition' | 'fixedBytes' | 'blockPositions'> & {
    readonly budgetBytes: number
    /** KV memory of one owner, at most. */
    readonly ownerBytes: number
    /** Cached prefixes expire after this long; 0: nothing is cached. */
    readonly prefixMs: number
  }
  /** Without a slow tier, rows that leave the memory are lost, so that only streams that can recompute them are preempted. */
  readonly tiers: Pick<TierOptions, 'writeThrough' | 'overlap'> & {
    readonly slow: SlowTier | undefined
    /** See PageOwner.model. */
    readonly kvModel: string
  }
  /** More rows than this count as a prompt, whatever they are. */
  readonly maxDecodeRows: number
  /** Rows of devices wait so long for memory that others hold. */
  readonly maxMemoryWaitMs: number
  /** Answers that wait for their first step, at most. */
  readonly maxWaitingAnswers: number
  /** Takes what the machine decides down. @param policy from which the policy can be made again */
  readonly recorded?: { readonly recording: Recording; readonly policy: unknown } | undefined
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
  /** Load and delay of the steps. */
  readonly monitor: StateMonitor
  readonly memory: KvUsage & { readonly cachedBytes: number }
  /** Of the slow tier; undefined where there is none. */
  readonly slow: KvUsage | undefined
  /** Streams that were preempted, and bytes of KV that went to the slow tier and back, since the start. */
  readonly transfers: { readonly preemptions: number; readonly savedBytes: number; readonly loadedBytes: number }
  readonly waitingAnswers: number
  /** Those that wait or are generated, in the order in which they began. */
  answers(): AnswerView[]
  /** The longest answer that the memory holds, prompt included; 0 where the model serves none. */
  readonly maxPositions: number
  /** Why the owner gets no more KV memory, for a message. */
  shortageOf(owner: string): string
  /** Waits a while until others are preempted. @returns undefined where there is no KV memory for another stream */
  open(owner: string, resume?: Resume): Promise<OpenedStream | undefined>
  /**
   * Begins an answer of the whole model. Its first step waits until the policy admits it.
   * @throws BrimError QUEUE_FULL
   */
  openTokens(owner: string, request: TokenStreamRequest): TokenStream
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
  const { prefixMs, budgetBytes, ownerBytes, contextLimit } = options.kv
  const { slow, writeThrough, overlap, kvModel } = options.tiers
  const prefixes = new PrefixCache<RowStream>()
  const limitsOf = ({ bytesPerPosition, fixedBytes }: Pick<SequenceKind, 'bytesPerPosition' | 'fixedBytes'>): KvLimits => ({
    ...options.kv,
    bytesPerPosition,
    ...(fixedBytes > 0 ? { fixedBytes } : {}),
    blockPositions: kvBlockPositions,
  })
  const none = { bytesPerPosition: 0, fixedBytes: 0 }
  const kv = { device: limitsOf(model.rows ?? none), answer: limitsOf(model.tokens ?? none) }
  const rules: ServingRules = {
    step,
    memory: { budgetBytes, ownerBytes },
    tiers: { slowBytes: slow?.usage.budgetBytes ?? 0, writeThrough, overlap, piecePages: 1 },
    contextLimit,
    sharesPrefixes: true,
    maxMemoryWaitMs: options.maxMemoryWaitMs,
    maxWaitingAnswers: options.maxWaitingAnswers,
  }
  const sizes = { device: blockwiseKv(kv.device), answer: blockwiseKv(kv.answer) }
  const machine = new ServingMachine({ ...rules, policy, sizes })
  const { recording, policy: recordedPolicy } = options.recorded ?? {}
  const decider = recording?.of('serving', { ...rules, kv, policy: recordedPolicy }, machine) ?? machine
  const takePrefix = (handle: string) => prefixes.delete(handle)?.sequence
  const loop = new StepLoop({ model, machine, decider, maxStreams: step.streams, takePrefix, clock, onStep, metrics })
  const stop = new AbortController()
  const tokenStreams = new Set<ModelTokenStream>()
  let streams = 0
  let expiring: Promise<void> | undefined
  const host: RowHost & TokenHost = {
    slow,
    kvModel,
    clock,
    warn: sampledWarnings(logger, clock),
    maxDecodeRows: options.maxDecodeRows,
    feed: (input) => loop.feed(input),
    served: (id) => machine.get(id),
    shortageOf: (owner) => machine.memory.shortageOf(owner),
    remove(stream) {
      if (stream instanceof RowStream) prefixes.forget(stream)
      if (stream instanceof ModelTokenStream) tokenStreams.delete(stream)
      loop.remove(stream)
    },
    leaveRows: (stream, isCached) => (isCached ? cache(stream) : release(stream)),
    longestPrefix: (owner, ids) => longestPrefix(prefixesOf(owner), ids),
    leaveTokens(stream, ids) {
      if (ids.length === 0) release(stream)
      else cache(stream, ids)
    },
  }

  function release({ id, kv }: EngineStream): undefined {
    kv.sequence.release()
    loop.feed({ kind: 'released', stream: id })
  }

  function cache(stream: EngineStream, ids?: readonly number[]): string | undefined {
    if (prefixMs === 0 || stop.signal.aborted) return release(stream)
    const handle = prefixes.add(stream.owner, stream.kv.sequence, clock.nowMs(), ids)
    loop.feed({ kind: 'cached', stream: stream.id, handle })
    expiring ??= expirePrefixes()
    return handle
  }

  const dropPrefix = (handle: string) => loop.feed({ kind: 'prefix dropped', handle })

  async function expirePrefixes(): Promise<void> {
    for (let { oldest } = prefixes; oldest && !stop.signal.aborted; { oldest } = prefixes) {
      const leftMs = oldest.sinceMs + prefixMs - clock.nowMs()
      if (leftMs <= 0) dropPrefix(oldest.handle)
      else await clock.sleep(leftMs, stop.signal).catch(() => {})
    }
    expiring = undefined
  }

  /** A stream takes the KV cached under this handle over, if it should not copy it. */
  function take(owner: string, { handle, length }: Resume): RowStream | undefined {
    const found = prefixes.find(owner, handle)
    if (found?.kind !== 'cached' || reuseOf(found.sequence.length, length) !== 'take') return undefined
    found.sequence.truncate(length)
    const stream = start(owner, found.sequence)
    stream.resume(handle)
    prefixes.markTaken(handle, stream)
    return stream
  }

  async function copyInto(stream: RowStream, { handle, length }: Resume): Promise<void> {
    const found = prefixes.find(stream.owner, handle)
    if (found?.kind === 'taken') {
      const source = await found.stream.prefixOf(length)
      if (source) stream.beginWith(source, { rows: length })
    } else if (found && reuseOf(found.sequence.length, length) !== 'none')
      stream.beginWith(found.sequence, { rows: length, cached: { handle, rows: found.sequence.length } })
  }

  function* prefixesOf(owner: string): Iterable<TokenPrefix> {
    yield* prefixes.withIds(owner)
    for (const stream of tokenStreams) if (stream.owner === owner && stream.prefix) yield stream.prefix
  }

  function start(owner: string, sequence: RowStream['kv']['sequence']): RowStream {
    streams += 1
    const stream = new RowStream(streams, owner, sequence, host)
    loop.add(stream)
    return stream
  }

  return {
    metrics: loop.metrics,
    monitor: machine.monitor,
    get memory() {
      const { usedBytes, cachedBytes } = machine.memory
      return { budgetBytes, usedBytes, cachedBytes }
    },
    get slow() {
      return slow?.usage
    },
    transfers: machine.transfers,
    get waitingAnswers() {
      return machine.waitingAnswers
    },
    answers: () => [...tokenStreams].flatMap((stream) => stream.view() ?? []),
    maxPositions: model.tokens ? positionsWithin(budgetBytes, limitsOf(model.tokens)) : 0,
    shortageOf: (owner) => machine.memory.shortageOf(owner),
    async open(owner, resume) {
      const taken = resume && take(owner, resume)
      if (taken) return { stream: taken, moved: true }
      const stream = start(owner, kindOf(model.rows, 'hidden states').create())
      if (await stream.open(Math.min(options.kv.firstPositions, contextLimit))) {
        if (resume) await copyInto(stream, resume)
        return { stream, moved: false }
      }
      await stream.close()
      return undefined
    },
    openTokens(owner, request) {
      const sequence = kindOf(model.tokens, 'token ids').create()
      streams += 1
      const stream = new ModelTokenStream(streams, owner, sequence, request, host)
      loop.add(stream)
      tokenStreams.add(stream)
      try {
        stream.open()
      } catch (error) {
        host.remove(stream)
        sequence.release()
        throw error
      }
      return stream
    },
    drop: dropPrefix,
    purge(owner) {
      const isOwned = (name: string) => name === owner || name.startsWith(`${owner}/`)
      for (const stream of tokenStreams) if (isOwned(stream.owner)) stream.leaveNothing()
      for (const { handle, sequence } of prefixes.deleteOwned(isOwned)) {
        dropPrefix(handle)
        sequence.release()
      }
      slow?.purge(isOwned)
    },
    releaseFree: () => slow?.releaseFree(),
    async close() {
      stop.abort()
      await loop.close()
      await expiring
      for (const { handle } of [...prefixes.cached()]) dropPrefix(handle)
      await loop.dropped()
      await slow?.close()
    },
  }
}

function kindOf(kind: SequenceKind | undefined, rows: string): SequenceKind {
  if (!kind) throw new Error(`the model serves no streams of ${rows}`)
  return kind
}
