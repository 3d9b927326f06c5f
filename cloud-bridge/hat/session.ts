import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { admitFrame, type FrameLimits } from '../../core/policy/admission/frame.ts'
import { encodeFault, type Fault } from '../../core/wire/protocol/fault.ts'
import { decodeStates, encodeFrame, type Frame, isCoded, paddedRowsOf } from '../../core/wire/protocol/frame.ts'
import type { StateCoders } from '../../core/wire/protocol/row-coder.ts'
import { firstNonFiniteRow, type States } from '../../core/wire/protocol/states.ts'
import type { AppendResult, Rows } from '../serving/pending-rows.ts'
import type { Stream } from '../serving/stream.ts'
import { ReplyCache } from './reply-cache.ts'
import { RoundCounts } from './round-counts.ts'

export interface SessionOptions {
  readonly id: bigint
  readonly epoch: number
  readonly width: number
  /** Undefined: coded rows are refused. */
  readonly coders?: StateCoders | undefined
  readonly limits: FrameLimits & {
    /** The reply to a padded frame is at most as long as one of so many rows; the frame itself as one of `maxRows`. */
    readonly maxPaddedRows: number
  }
  readonly stream: Stream
  readonly clock: Clock
  send(bytes: Uint8Array): void
  /** The session has failed, and the device has been sent the fault; `cause` is the error that led to it, if any. */
  onFault(fault: Fault, cause?: unknown): void
}

export interface Session {
  readonly id: bigint
  readonly epoch: number
  /** Frames that wait or are being computed. */
  readonly pending: number
  readonly counts: Readonly<Pick<RoundCounts, 'rounds' | 'drafted' | 'accepted'>>
  /** Handles frames in the order of the calls; resolves when this one has been answered or dropped. */
  receive(frame: Frame, receivedMs: number): Promise<void>
  /** Sends the device a fault, then ends. */
  fail(fault: Fault, seq: number): Promise<void>
  /** Drops frames that wait, lets a running step finish, releases the KV. */
  end(): Promise<void>
  /** Ends, and caches the KV of the first `length` positions. @returns the handle, as Stream.keep */
  keep(length: number): Promise<string | undefined>
}

/** One device's exchange with the middle part: frames of shallow rows in, frames of deep rows out. */
export function createSession(options: SessionOptions): Session {
  const { id, epoch, width, coders, limits, stream, clock } = options
  const replies = new ReplyCache((bytes) => stream.hold(bytes))
  const counts = new RoundCounts()
  let repeats = 0
  let lastSeq: number | undefined
  /** First position and rows of the last frame, if it contained a tree of which no row has been kept yet. */
  let tree: { base: number; n: number } | undefined
  let pending = 0
  let lastFrame: Promise<void> = Promise.resolve()
  let hasEnded = false

  async function handle(frame: Frame, receivedMs: number): Promise<void> {
    if (hasEnded) return
    try {
      const cached = replies.get(frame.seq)
      const view = { length: lengthFor(frame), lastSeq, hasReply: cached !== undefined, repeats }
      const admission = admitFrame(frame, view, limits)
      switch (admission.kind) {
        case 'apply':
          return await apply(frame, receivedMs)
        case 'repeat':
          repeats += 1
          return options.send(cached!)
        case 'gap':
          return options.send(encodeFrame({ type: 'gap', session: id, epoch, seq: frame.seq, base: admission.length }))
        case 'fault':
          return fault(admission, frame.seq)
        default:
          return admission satisfies never
      }
    } catch (error) {
      // Closing the stream rejects what waits: the session has ended, so there is no fault to send.
      if (!hasEnded) fault(faultOf(error), frame.seq, error)
    }
  }

  /** Positions in a line, once the rows that the frame keeps of a tree have been gathered. @throws BrimError FRAME_INVALID */
  function lengthFor({ tree: form, base, seq }: Frame): number {
    if (!form || form.kept.length === 0 || (lastSeq !== undefined && seq <= lastSeq)) return stream.line
    const last = form.kept.at(-1)!
    if (!tree || last >= tree.n || base !== tree.base + form.kept.length)
      throw new BrimError(
        'FRAME_INVALID',
        `frame ${seq} keeps ${form.kept.length} rows of a tree that the previous frame did not bring`,
      )
    return base
  }

  async function apply(frame: Frame, receivedMs: number): Promise<void> {
    const { seq, base, n, want } = frame
    const { kept = [], parents = [] } = frame.tree ?? {}
    if (base === 0 && parents.length > 0) throw new BrimError('FRAME_INVALID', `frame ${seq} branches before the first position`)
    const states = decodeStates(frame, width, limits.maxRows, coders?.up)
    const badRow = firstNonFiniteRow(states)
    if (badRow !== undefined) throw new BrimError('FRAME_INVALID', `row ${badRow} of frame ${seq} holds NaN or infinity`)
    if (tree && kept.length > 0) {
      const from = tree.base
      stream.gather(
        from,
        kept.map((row) => from + row),
      )
    }
    stream.truncate(base)
    const rows = { states, parents: positionsOf(parents, base), select: lastRows(n, want) }
    const deep = n === 0 ? nothing(states) : await stream.append(rows)
    if (hasEnded) return
    tree = parents.length > 0 ? { base, n } : undefined
    const wrongRow = firstNonFiniteRow(deep.states)
    if (wrongRow !== undefined) throw new BrimError('RUNTIME_FAILED', `the middle part returned NaN for frame ${seq}`)
    const reply = replyTo(frame, deep, receivedMs)
    lastSeq = seq
    replies.add(seq, reply)
    counts.add(frame)
    options.send(reply)
  }

  function replyTo(frame: Frame, deep: Pick<AppendResult, 'states' | 'computeMs'>, receivedMs: number): Uint8Array {
    const { seq, base, n, want } = frame
    const { states, computeMs } = deep
    const queueMs = Math.max(0, clock.nowMs() - receivedMs - computeMs)
    // The length of a padded frame hides how many rows it has; its reply is padded alike.
    const rowsOfLength = paddedRowsOf(frame, width, coders?.up)
    const paddedRows = rowsOfLength && Math.min(rowsOfLength, limits.maxPaddedRows)
    const form = { paddedRows, coder: isCoded(frame) ? coders?.down : undefined }
    return encodeFrame({ type: 'deep', session: id, epoch, seq, base: base + n - want, queueMs, computeMs }, states, form)
  }

  function fault(reason: Fault, seq: number, cause?: unknown): void {
    const { code, message } = reason
    options.send(encodeFault({ session: id, epoch, seq }, { code, message }))
    void end()
    options.onFault(reason, cause)
  }

  function end(): Promise<void> {
    hasEnded = true
    return stream.close()
  }

  return {
    id,
    epoch,
    counts,
    get pending() {
      return pending
    },
    receive(frame, receivedMs) {
      pending += 1
      lastFrame = lastFrame
        .then(() => handle(frame, receivedMs))
        .finally(() => {
          pending -= 1
        })
      return lastFrame
    },
    fail(reason, seq) {
      if (!hasEnded) fault(reason, seq)
      return end()
    },
    end,
    keep(length) {
      hasEnded = true
      return stream.keep(length)
    },
  }
}

const nothing = ({ width }: States) => ({
  states: { rows: 0, width, half: new Uint16Array(0) },
  computeMs: 0,
})

/** A frame's parents as positions of the stream; undefined for a line. */
function positionsOf(parents: readonly number[], base: number): number[] | undefined {
  return parents.length === 0 ? undefined : parents.map((parent) => base + parent)
}

function lastRows(n: number, want: number): Rows['select'] {
  if (want === 0) return 'none'
  if (want === 1) return 'last'
  if (want === n) return 'all'
  return Array.from({ length: want }, (_, i) => n - want + i)
}

/** The fault that the device is sent. Only a BrimError's message is meant for devices. */
function faultOf(error: unknown): Fault {
  if (error instanceof BrimError) return { code: error.code, message: error.message }
  return { code: 'RUNTIME_FAILED', message: 'the bridge failed to compute this frame; its log says why' }
}
