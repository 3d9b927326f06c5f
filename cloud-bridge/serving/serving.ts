import type { Clock } from '../../core/base/clock.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Part, Sequence } from '../../core/engine/contract.ts'
import { firstCapacity } from '../../core/engine/sequence.ts'
import { type KvLimits, type KvUsage, kvBytesPerPosition } from '../../core/policy/admission/kv.ts'
import type { ServingPolicy } from '../../core/policy/serving/policy.ts'
import { reuseOf } from '../../core/policy/serving/prefix-reuse.ts'
import { KvMemory } from './kv-memory.ts'
import { PrefixCache } from './prefix-cache.ts'
import type { EndedStep, ServingMetrics } from './serving-metrics.ts'
import { type StepLimits, StepLoop } from './step-loop.ts'
import { RowStream, type Stream, type StreamHost } from './stream.ts'

export interface ServingOptions {
  readonly part: Part
  readonly policy: ServingPolicy
  readonly step: StepLimits
  readonly kv: Omit<KvLimits, 'bytesPerPosition' | 'firstCapacity'> & {
    readonly budgetBytes: number
    /** KV memory of one owner, at most. */
    readonly ownerBytes: number
    /** Cached prefixes expire after this long; 0: nothing is cached. */
    readonly prefixMs: number
  }
  /** More rows than this count as a prompt, whatever they are. */
  readonly maxDecodeRows: number
  readonly clock: Clock
  readonly logger: Logger
  readonly onStep?: (step: EndedStep) => void
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
  /** Why the owner gets no more KV memory, for a message. */
  shortageOf(owner: string): string
  /** @returns undefined where there is no KV memory for another stream */
  open(owner: string, resume?: Resume): Promise<OpenedStream | undefined>
  /** Deletes one cached prefix. */
  drop(handle: string): void
  /** Deletes all prefixes of an owner. */
  purge(owner: string): void
  /** Rejects what waits, lets running steps finish, releases the cached prefixes. Streams are closed by their owners. */
  close(): Promise<void>
}

/** One part of a model that serves many streams. Knows rows and KV, but neither their senders nor the transport. */
export function createServing({ part, policy, step, clock, logger, onStep, ...options }: ServingOptions): Serving {
  const { prefixMs } = options.kv
  const prefixes = new PrefixCache<RowStream>()
  const kvLimits = { ...options.kv, bytesPerPosition: kvBytesPerPosition(part.manifest), firstCapacity }
  const kv = new KvMemory(part, kvLimits, prefixes)
  const loop = new StepLoop({ part, policy, kv, limits: step, clock, onStep })
  const stop = new AbortController()
  let streams = 0
  let expiring: Promise<void> | undefined
  const host: StreamHost = {
    kv,
    clock,
    maxDecodeRows: options.maxDecodeRows,
    enqueue: (stream) => loop.enqueue(stream),
    remove(stream) {
      prefixes.forget(stream)
      loop.remove(stream)
    },
    cache(owner, sequence) {
      if (prefixMs === 0 || stop.signal.aborted) {
        kv.release(sequence)
        return undefined
      }
      const handle = prefixes.add(owner, sequence, clock.nowMs())
      expiring ??= expirePrefixes()
      return handle
    },
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

  function start(owner: string, sequence: Sequence): RowStream {
    streams += 1
    const stream = new RowStream(streams, owner, sequence, host)
    loop.add(stream)
    return stream
  }

  return {
    metrics: loop.metrics,
    get memory() {
      return { ...kv.usage, cachedBytes: kv.cachedBytes }
    },
    shortageOf: (owner) => kv.shortageOf(owner),
    async open(owner, resume) {
      const taken = resume && take(owner, resume)
      if (taken) {
        const stream = start(owner, taken)
        prefixes.markTaken(resume.handle, stream)
        return { stream, moved: true }
      }
      const sequence = kv.create(owner)
      if (!sequence) return undefined
      if (resume) await copyInto(sequence, owner, resume).catch((err) => logger.warn({ err }, 'prefix not copied'))
      return { stream: start(owner, sequence), moved: false }
    },
    drop: (handle) => kv.evictPrefix(handle),
    purge(owner) {
      for (const { sequence } of prefixes.deleteOwned(owner)) kv.release(sequence)
    },
    async close() {
      stop.abort()
      await loop.close()
      await expiring
      for (const { handle } of [...kv.cached()]) kv.evictPrefix(handle)
    },
  }
}
