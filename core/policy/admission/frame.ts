import type { ErrorCode } from '../../base/errors.ts'
import type { FrameHeader } from '../../protocol/frame.ts'

/** What a session knows when a frame's turn has come. */
export interface SessionView {
  /** Positions that the KV holds. */
  readonly length: number
  /** Of the frame applied last; undefined before the first. */
  readonly lastSeq: number | undefined
  /** Whether the reply to this seq is still at hand. */
  hasReply(seq: number): boolean
}

export interface FrameLimits {
  readonly contextLimit: number
  /** Rows of one frame. */
  readonly maxRows: number
}

export type Admission =
  | { kind: 'apply' }
  | { kind: 'repeat' }
  /** A hole lies before `base`; the frame has not been applied and its seq may be used again. */
  | { kind: 'gap'; length: number }
  | { kind: 'fault'; code: ErrorCode; message: string }

/**
 * What is to be done with a frame of a session (core/protocol/frame.ts: frames are idempotent). Its epoch and owner
 * have been checked.
 */
export function admitFrame(frame: FrameHeader, session: SessionView, limits: FrameLimits): Admission {
  const { type, seq, base, n, want } = frame
  if (type !== 'rows') return invalid(`a device sends rows, not ${type}`)
  if (session.lastSeq !== undefined && seq <= session.lastSeq) {
    if (session.hasReply(seq)) return { kind: 'repeat' }
    return invalid(`frame ${seq} comes after frame ${session.lastSeq}, and its reply is no longer kept`)
  }
  if (want > n) return invalid(`frame ${seq} wants ${want} rows back and brings ${n}`)
  if (n > limits.maxRows) return invalid(`frame ${seq} has ${n} rows, the limit is ${limits.maxRows}`)
  if (base > session.length) return { kind: 'gap', length: session.length }
  if (base + n > limits.contextLimit)
    return {
      kind: 'fault',
      code: 'CONTEXT_OVERFLOW',
      message: `position ${base + n} is beyond the context limit of ${limits.contextLimit}`,
    }
  return { kind: 'apply' }
}

const invalid = (message: string): Admission => ({ kind: 'fault', code: 'FRAME_INVALID', message })
