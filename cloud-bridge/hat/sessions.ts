import { randomBytes } from 'node:crypto'
import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Logger } from '../../core/base/logger.ts'
import type { Part, Sequence } from '../../core/engine/contract.ts'
import type { FrameLimits } from '../../core/policy/admission/frame.ts'
import { ChunkAdvice, type ChunkAdviceOptions, type DeviceRates } from '../../core/policy/hat/chunk-advice.ts'
import { encodeFault, type Fault } from '../../core/protocol/fault.ts'
import { decodeFrame, type Frame, peekFrame, rowBytes, type Wire } from '../../core/protocol/frame.ts'
import { sessionHex } from '../../core/protocol/messages.ts'
import { type KvBudget, reclaiming } from '../serving/kv-budget.ts'
import { KeptPrefixes } from '../serving/prefix-cache.ts'
import type { StepLoop } from '../serving/step-loop.ts'
import { createSession, type Session } from './session.ts'

/** A device's connection, as far as sessions care. */
export interface Peer {
  readonly device: string
  /** Never throws; what cannot be sent any more is dropped. */
  /** What it has said of itself last. */
  readonly rates: DeviceRates | undefined
  send(bytes: Uint8Array): void
  /** Tokens of a prompt per frame from now on. */
  advise(session: bigint, chunkTokens: number): void
}

export interface SessionsOptions {
  readonly part: Part
  readonly width: number
  readonly loop: StepLoop
  readonly budget: KvBudget
  readonly chunks: Omit<ChunkAdviceOptions, 'bytesPerToken'>
  readonly limits: FrameLimits & { readonly sessionsPerPeer: number; readonly idleMs: number; readonly keepMs: number }
  readonly clock: Clock
  readonly logger: Logger
  /** The number of sessions has changed. */
  readonly onCount?: () => void
}

/** What a device wants to begin with. */
export interface Resume {
  readonly handle: string
  readonly length: number
}

export interface SessionWish {
  readonly resume?: Resume | undefined
  /** fp16 where nothing is said. */
  readonly wire?: Wire | undefined
}

export type OpenResult =
  | { kind: 'opened'; session: bigint; epoch: number; held: number; moved: boolean; chunkTokens: number; frameTokens: number }
  | { kind: 'refused'; code: 'SESSION_REFUSED'; message: string; retryAfterMs: number }

/** All sessions of all devices on one middle part. */
export interface Sessions {
  readonly count: number
  /** Bytes of KV that stand ready for later sessions. */
  readonly keptBytes: number
  open(peer: Peer, wish?: SessionWish): Promise<OpenResult>
  /** A binary message; resolves when it has been dealt with. Never rejects, whatever the bytes. */
  receive(peer: Peer, bytes: Uint8Array): Promise<void>
  /** @param keep positions that shall stand ready for later; @returns under which handle */
  close(peer: Peer, session: bigint, keep?: number): Promise<string | undefined>
  /** The connection is gone, and with it its sessions. */
  closePeer(peer: Peer): Promise<void>
  /** Nothing stands ready for this device any more. */
  purge(device: string): void
  /** Tells every device why, ends every session. */
  shutdown(fault: Fault): Promise<void>
}

interface Entry {
  readonly session: Session
  readonly peer: Peer
  readonly chunks: ChunkAdvice
  usedMs: number
}

/** Positions of a kept KV that a session which takes it over may drop; where it were more, the session gets a copy. */
const mostLost = 32
/** How long a device that was refused had better wait. */
const retryAfterMs = 1_000

export function createSessions(options: SessionsOptions): Sessions {
  const { part, loop, limits, clock, logger } = options
  const kept = new KeptPrefixes<Session>(limits.keepMs, clock, release)
  const budget = reclaiming(options.budget, () => kept.evict())
  const entries = new Map<bigint, Entry>()
  /** Sessions whose last step still runs. */
  const leaving = new Set<Promise<void>>()
  const stop = new AbortController()
  /** Sessions that are being opened, by peer. */
  const opening = new Map<Peer, number>()
  /** Whose connection has ended: what they still wait for is for nobody. */
  const gone = new WeakSet<Peer>()
  let epochs = 0

  function remove(id: bigint): void {
    if (entries.delete(id)) options.onCount?.()
  }

  async function end(entry: Entry): Promise<void> {
    remove(entry.session.id)
    kept.forget(entry.session)
    await last(entry.session.end())
  }

  /** Shutting down waits for it. */
  async function last<T>(ended: Promise<T>): Promise<T> {
    const done = ended.then(() => {})
    leaving.add(done)
    try {
      return await ended
    } finally {
      leaving.delete(done)
    }
  }

  function opened(peer: Peer): void {
    const left = (opening.get(peer) ?? 1) - 1
    if (left > 0) opening.set(peer, left)
    else opening.delete(peer)
  }

  function release(sequence: Sequence): void {
    options.budget.free(sequence)
    sequence.release()
  }

  /** The KV that stood ready under this handle, if little of it would be lost by going on from `length`. */
  function takenOver(peer: Peer, { handle, length }: Resume): Sequence | undefined {
    const found = kept.find(peer.device, handle)
    if (found?.kind !== 'ready') return undefined
    const lost = found.sequence.length - length
    if (lost < 0 || lost > mostLost) return undefined
    kept.take(handle)
    found.sequence.truncate(length)
    return found.sequence
  }

  /** A KV of its own, with a copy of what another session goes on with; undefined where there is no memory for it. */
  async function fresh(peer: Peer, resume: Resume | undefined): Promise<Sequence | undefined> {
    const sequence = part.createSequence()
    if (!budget.admit(sequence)) {
      sequence.release()
      return undefined
    }
    if (resume) await copyInto(sequence, peer, resume).catch((err) => logger.warn({ err }, 'a prefix could not be copied'))
    return sequence
  }

  async function copyInto(sequence: Sequence, peer: Peer, { handle, length }: Resume): Promise<void> {
    if (!kept.find(peer.device, handle) || !budget.grow(sequence, length)) return
    // Only now: making room may have cost us what we look for.
    const found = kept.find(peer.device, handle)
    if (found?.kind === 'taken') await found.owner.share(sequence, length)
    else if (found && length <= found.sequence.length) sequence.copyPrefix(found.sequence, length)
  }

  function find(peer: Peer, frame: Pick<Frame, 'session' | 'epoch'>): Entry | undefined {
    const entry = entries.get(frame.session)
    return entry && entry.peer === peer && entry.session.epoch === frame.epoch ? entry : undefined
  }

  function refuse(message: string): OpenResult {
    return { kind: 'refused', code: 'SESSION_REFUSED', message, retryAfterMs }
  }

  let sweeping: Promise<void> | undefined
  /** While there are sessions: ends what has been idle for too long; looks four times in that while. */
  async function sweep(): Promise<void> {
    while (entries.size + kept.sequences().length > 0 && !stop.signal.aborted) {
      await clock.sleep(limits.idleMs / 4, stop.signal).catch(() => {})
      kept.expire()
      const sinceMs = clock.nowMs() - limits.idleMs
      for (const entry of [...entries.values()]) {
        if (stop.signal.aborted || entry.session.pending > 0 || entry.usedMs > sinceMs) continue
        void entry.session.fail({ code: 'SESSION_UNKNOWN', message: `idle for ${limits.idleMs / 1_000} s` }, 0)
      }
    }
    sweeping = undefined
  }

  return {
    get count() {
      return entries.size
    },
    get keptBytes() {
      return kept.sequences().reduce((sum, sequence) => sum + budget.chargeOf(sequence), 0)
    },
    async open(peer, { resume, wire = 'fp16' } = {}) {
      if (stop.signal.aborted) return refuse('the bridge is shutting down')
      const underWay = opening.get(peer) ?? 0
      const own = [...entries.values()].filter((entry) => entry.peer === peer).length + underWay
      if (own >= limits.sessionsPerPeer) return refuse(`${own} sessions are open on this connection, the limit`)
      const moved = resume && takenOver(peer, resume)
      opening.set(peer, underWay + 1)
      const sequence = moved ?? (await fresh(peer, resume).finally(() => opened(peer)))
      if (moved) opened(peer)
      if (!sequence) return refuse(`the KV memory of this bridge is taken by ${entries.size} sessions`)
      if (stop.signal.aborted || gone.has(peer)) {
        release(sequence)
        return refuse('the connection has ended')
      }
      const held = sequence.length
      const id = randomBytes(8).readBigUInt64LE()
      epochs += 1
      const log = logger.child({ session: sessionHex(id), device: peer.device })
      const session = createSession({
        id,
        epoch: epochs,
        width: options.width,
        limits,
        sequence,
        budget,
        loop,
        clock,
        send: peer.send.bind(peer),
        onFault: (fault, err) => {
          log.warn({ fault, err }, 'session ended by a fault')
          void end(entry)
        },
      })
      const chunks = new ChunkAdvice({ ...options.chunks, bytesPerToken: rowBytes(wire, options.width) })
      chunks.revise(peer.rates)
      const entry: Entry = { session, peer, chunks, usedMs: clock.nowMs() }
      entries.set(id, entry)
      if (resume && moved) kept.share(resume.handle, peer.device, session)
      sweeping ??= sweep()
      options.onCount?.()
      log.info({ held }, 'session opened')
      return {
        kind: 'opened',
        session: id,
        epoch: session.epoch,
        held,
        moved: moved !== undefined,
        chunkTokens: chunks.tokens,
        frameTokens: limits.maxRows,
      }
    },
    async receive(peer, bytes) {
      let frame: Frame
      try {
        frame = decodeFrame(bytes)
      } catch (error) {
        if (!(error instanceof BrimError)) throw error
        const about = peekFrame(bytes)
        const fault = { code: error.code, message: error.message }
        const entry = find(peer, about)
        if (entry) await entry.session.fail(fault, about.seq)
        else peer.send(encodeFault(about, fault))
        return
      }
      const entry = find(peer, frame)
      if (!entry) {
        const message = `there is no session ${sessionHex(frame.session)} of epoch ${frame.epoch} on this connection`
        return peer.send(encodeFault(frame, { code: 'SESSION_UNKNOWN', message }))
      }
      entry.usedMs = clock.nowMs()
      await entry.session.receive(frame, entry.usedMs)
      entry.usedMs = clock.nowMs()
      // More rows than are asked back: a prompt, perhaps with more to come.
      if (frame.n > frame.want && entries.has(frame.session) && entry.chunks.revise(peer.rates))
        peer.advise(frame.session, entry.chunks.tokens)
    },
    async close(peer, session, keep) {
      const entry = entries.get(session)
      if (entry?.peer !== peer) return undefined
      if (keep === undefined) {
        await end(entry)
        return undefined
      }
      remove(session)
      kept.forget(entry.session)
      const sequence = await last(entry.session.leave(keep))
      if (!sequence) return undefined
      if (gone.has(peer)) {
        // It can no longer be told the handle; and where it was cut off, none may lead anywhere.
        release(sequence)
        return undefined
      }
      const handle = kept.keep(peer.device, sequence)
      // Too late to be of use: shutting down has given back what stood ready before.
      if (stop.signal.aborted) kept.clear()
      else if (handle !== undefined) sweeping ??= sweep()
      return handle
    },
    async closePeer(peer) {
      gone.add(peer)
      await Promise.all([...entries.values()].filter((entry) => entry.peer === peer).map(end))
    },
    purge: (device) => kept.purge(device),
    async shutdown(fault) {
      stop.abort()
      await sweeping
      await Promise.all([...entries.values()].map((entry) => entry.session.fail(fault, 0)))
      await Promise.all(leaving)
      kept.clear()
    },
  }
}
