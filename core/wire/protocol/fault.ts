import { z } from 'zod'
import { BrimError } from '../../kit/base/errors.ts'
import { encodeFrame, type Frame, type FrameHeader } from './frame.ts'
import { readMessage } from './read-message.ts'

/** Why a session ended: the payload of a `fault` frame. A newer release may send codes that core/kit/base/errors.ts lacks. */
export const Fault = z.object({ code: z.string(), message: z.string() })
export type Fault = z.infer<typeof Fault>

export function encodeFault(to: Pick<FrameHeader, 'session' | 'epoch' | 'seq'>, fault: Fault): Uint8Array {
  const { session, epoch, seq } = to
  return encodeFrame({ type: 'fault', session, epoch, seq }, new TextEncoder().encode(JSON.stringify(fault)))
}

/** @throws BrimError FRAME_INVALID */
export function decodeFault(frame: Frame): Fault {
  const read = readMessage(Fault, frame.payload)
  if (read.kind === 'message') return read.message
  throw new BrimError('FRAME_INVALID', `malformed frame: the payload of a fault is not {code, message}: ${read.reason}`)
}
