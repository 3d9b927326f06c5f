import type { Clock } from '../../core/base/clock.ts'
import { BrimError } from '../../core/base/errors.ts'
import type { Sequence, StepItem } from '../../core/engine/contract.ts'
import { admitFrame, type FrameLimits } from '../../core/policy/admission/frame.ts'
import { encodeFault, type Fault } from '../../core/protocol/fault.ts'
import { decodeStates, encodeFrame, type Frame, paddedRowsOf } from '../../core/protocol/frame.ts'
import { firstNonFiniteRow, type States } from '../../core/protocol/states.ts'
import type { KvBudget } from '../serving/kv-budget.ts'
import type { StepLoop } from '../serving/step-loop.ts'

/** Replies kept for a repeat. */
const repliesKept = 8

export interface SessionParts {
  readonly id: bigint
  readonly epoch: number
  readonly width: number
  readonly limits: FrameLimits
  readonly sequence: Sequence
  readonly budget: KvBudget
  readonly loop: StepLoop
  readonly clock: Clock
  send(bytes: Uint8Array): void
  /** The session has ended by a fault, which has been sent; `cause` where an error led to it. */
  onFault(fault: Fault, cause?: unknown): void
}

export interface Session {
  readonly id: bigint
  readonly epoch: number
  /** Frames that wait or are being computed. */
  readonly pending: number
  /** Frames are dealt with in the order of these calls; resolves when this one has been, or has been dropped. */
  receive(frame: Frame, receivedMs: number): Promise<void>
  /** Tells the device why, then ends. */
  fail(fault: Fault, seq: number): Promise<void>
  /** Drops what waits, lets a running step finish, frees the KV. */
  end(): Promise<void>
  /** Ends, but leaves the KV of the first `length` positions; undefined where it holds fewer, or has ended before. */
  leave(length: number): Promise<Sequence | undefined>
  /** Between two of its frames: copies the first positions that it began with; false where they are no longer what they were. */
  share(target: Sequence, length: number): Promise<boolean>
}

/** One device's conversation with the middle: rows in, deep rows out, and the KV in between. */
export function createSession(parts: SessionParts): Session {
  const { id, epoch, width, limits, sequence, budget, loop, clock } = parts
  const replies = new Map<number, Uint8Array>()
  const stop = new AbortController()
  let lastSeq: number | undefined
  /** Positions that are still what the session began with. */
  let untouched = sequence.length
  /** First position and rows of the last frame, where it brought a tree of which nothing has been kept yet. */
  let tree: { base: number; n: number } | undefined
  let pending = 0
  let tail: Promise<void> = Promise.resolve()
  let ending: Promise<void> | undefined

  async function handle(frame: Frame, receivedMs: number): Promise<void> {
    if (ending) return
    try {
      const view = { length: lengthFor(frame), lastSeq, hasReply: (seq: number) => replies.has(seq) }
      const admission = admitFrame(frame, view, limits)
      switch (admission.kind) {
        case 'apply':
          return await apply(frame, receivedMs)
        case 'repeat':
          return parts.send(replies.get(frame.seq)!)
        case 'gap':
          return parts.send(encodeFrame({ type: 'gap', session: id, epoch, seq: frame.seq, base: admission.length }))
        case 'fault':
          return fault(admission, frame.seq)
        default:
          return admission satisfies never
      }
    } catch (error) {
      // What was aborted is nobody's fault: the session has ended.
      if (!ending) fault(faultOf(error), frame.seq, error)
    }
  }

  /** Positions that the KV holds in a line, once what the frame keeps of a tree has been gathered. */
  function lengthFor({ tree: form, base, seq }: Frame): number {
    if (!form || form.kept.length === 0 || (lastSeq !== undefined && seq <= lastSeq)) return sequence.line
    const last = form.kept.at(-1)!
    if (!tree || last >= tree.n || base !== tree.base + form.kept.length)
      throw new BrimError('FRAME_INVALID', `frame ${seq} keeps ${form.kept.length} rows of a tree that was not there`)
    return base
  }

  async function apply(frame: Frame, receivedMs: number): Promise<void> {
    const { seq, base, n, want } = frame
    const { kept = [], parents = [] } = frame.tree ?? {}
    if (base === 0 && parents.length > 0) throw new BrimError('FRAME_INVALID', `frame ${seq} branches from nothing`)
    const states = decodeStates(frame, width)
    const badRow = firstNonFiniteRow(states)
    if (badRow !== undefined) throw new BrimError('FRAME_INVALID', `row ${badRow} of frame ${seq} holds NaN or infinity`)
    if (!budget.grow(sequence, base + n))
      throw new BrimError('OUT_OF_MEMORY', `the bridge has no KV memory left for ${base + n} positions`)
    untouched = Math.min(untouched, base)
    if (tree && kept.length > 0) {
      const from = tree.base
      sequence.gather(
        from,
        kept.map((row) => from + row),
      )
    }
    sequence.truncate(base)
    const deep =
      n === 0
        ? nothing(states)
        : await loop.submit(
            { sequence, states, parents: rowsOf(parents, base), select: lastRows(n, want), prompt: want < n },
            stop.signal,
          )
    if (ending) return
    tree = parents.length > 0 ? { base, n } : undefined
    const wrongRow = firstNonFiniteRow(deep.states)
    if (wrongRow !== undefined) throw new BrimError('RUNTIME_FAILED', `the middle part returned NaN for frame ${seq}`)
    const { computeMs } = deep
    const queueMs = Math.max(0, clock.nowMs() - receivedMs - computeMs)
    // A verification whose length tells nothing is answered by one that does not either.
    const form = { paddedRows: paddedRowsOf(frame, width) }
    const reply = encodeFrame(
      { type: 'deep', session: id, epoch, seq, base: base + n - want, queueMs, computeMs },
      deep.states,
      form,
    )
    lastSeq = seq
    replies.set(seq, reply)
    if (replies.size > repliesKept) replies.delete(replies.keys().next().value!)
    parts.send(reply)
  }

  function fault(reason: Fault, seq: number, cause?: unknown): void {
    const { code, message } = reason
    parts.send(encodeFault({ session: id, epoch, seq }, { code, message }))
    void end()
    parts.onFault(reason, cause)
  }

  function end(): Promise<void> {
    return finish(() => {
      budget.free(sequence)
      sequence.release()
    })
  }

  function finish(last: () => void): Promise<void> {
    if (ending) return ending
    // Set before the abort: whoever it wakes sees that it is over.
    ending = tail.then(last)
    stop.abort()
    return ending
  }

  return {
    id,
    epoch,
    get pending() {
      return pending
    },
    receive(frame, receivedMs) {
      pending += 1
      tail = tail
        .then(() => handle(frame, receivedMs))
        .finally(() => {
          pending -= 1
        })
      return tail
    },
    fail(reason, seq) {
      if (!ending) fault(reason, seq)
      return end()
    },
    end,
    async leave(length) {
      if (ending) return undefined
      if (sequence.line < length) {
        await end()
        return undefined
      }
      await finish(() => sequence.truncate(length))
      return sequence
    },
    share(target, length) {
      const shared = tail.then(() => {
        if (ending || length > untouched) return false
        target.copyPrefix(sequence, length)
        return true
      })
      tail = shared.then(
        () => {},
        () => {},
      )
      return shared
    },
  }
}

const nothing = ({ width }: States) => ({
  states: { rows: 0, width, half: new Uint16Array(0) },
  computeMs: 0,
})

/** A frame's parents as rows of the sequence; undefined for a line. */
function rowsOf(parents: readonly number[], base: number): number[] | undefined {
  return parents.length === 0 ? undefined : parents.map((parent) => base + parent)
}

function lastRows(n: number, want: number): StepItem['select'] {
  if (want === 0) return 'none'
  if (want === 1) return 'last'
  if (want === n) return 'all'
  return Array.from({ length: want }, (_, i) => n - want + i)
}

/** What the device is told; only our own errors have words meant for others. */
function faultOf(error: unknown): Fault {
  if (error instanceof BrimError) return { code: error.code, message: error.message }
  return { code: 'RUNTIME_FAILED', message: 'the bridge failed to compute this frame; its log says why' }
}
