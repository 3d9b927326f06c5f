import type { ErrorCode } from '../../kit/base/errors.ts'
import type { FrameHeader } from '../../wire/protocol/frame.ts'

/** What a session knows when it handles a frame. */
export interface SessionView {
  /** Positions that its KV holds. */
  readonly length: number
  /** Of the last frame that was applied; undefined before the first. */
  readonly lastSeq: number | undefined
  /** Whether the reply to the frame's seq is cached. */
  readonly hasReply: boolean
  /** Cached replies that it has sent again. */
  readonly repeats: number
}

export interface FrameLimits {
  readonly contextLimit: number
  readonly maxRows: number
  /** Cached replies that a session sends again. */
  readonly maxRepeats: number
}

export type FrameAdmission =
  | { kind: 'apply' }
  /** The frame has been answered before; its cached reply is sent again. */
  | { kind: 'repeat' }
  /** The KV ends before the frame's `base`. The frame is not applied, and the device may use its seq again. */
  | { kind: 'gap'; length: number }
  | { kind: 'fault'; code: ErrorCode; message: string }

/**
 * What a session does with a frame. Frames are idempotent (core/wire/protocol/frame.ts). The caller has checked the frame's
 * session, epoch and connection.
 */
export function admitFrame(frame: FrameHeader, session: SessionView, limits: FrameLimits): FrameAdmission {
  const { type, seq, base, n, want } = frame
  if (type !== 'rows') return invalid(`a device sends frames of type rows, not ${type}`)
  if (session.lastSeq !== undefined && seq <= session.lastSeq) {
    if (session.hasReply && session.repeats < limits.maxRepeats) return { kind: 'repeat' }
    if (session.hasReply) return invalid(`frame ${seq} is repeated: a session repeats ${limits.maxRepeats} replies at most`)
    return invalid(`frame ${seq} was sent after frame ${session.lastSeq}, and its reply is no longer cached`)
  }
  if (want > n) return invalid(`frame ${seq} requests ${want} rows but has ${n}`)
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

const invalid = (message: string): FrameAdmission => ({ kind: 'fault', code: 'FRAME_INVALID', message })
