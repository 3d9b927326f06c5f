import type { DeviceMode } from '../../core/kit/base/answer-modes.ts'
import { BrimError, type ErrorCode } from '../../core/kit/base/errors.ts'
import type { AnswerSide } from './side.ts'

/** No bridge could be reached, or trusted: at the start of an answer, or after its session broke off and no bridge took it over in time. */
const bridgeLost: ReadonlySet<ErrorCode> = new Set([
  'LINK_LOST',
  'BRIDGE_UNREACHABLE',
  'SESSION_REFUSED',
  'ATTESTATION_REFUSED',
  'NOT_AUTHORIZED',
])

/**
 * Whether the other side may answer for one that has failed. In a private answer only where the bridge or the context is what is
 * missing: other failures of HAT are the device's own, and must not pass unnoticed.
 * @param mode undefined: the answer does not depend on the side
 */
export function isReplaceable(error: unknown, mode: DeviceMode | undefined): error is BrimError {
  if (!(error instanceof BrimError) || error.code === 'CANCELED') return false
  return mode !== 'private' || error.code === 'CONTEXT_OVERFLOW' || bridgeLost.has(error.code)
}

/** The side that is missing is what the client can wait for, so its code remains. @param cause why the other side went on */
export function withoutRoom(error: BrimError, cause: BrimError | undefined, model: string): BrimError {
  if (error.code !== 'CONTEXT_OVERFLOW' || !cause) return error
  return new BrimError(cause.code, `${cause.message}; the model ${model} cannot continue: ${error.message}`, {
    cause,
    hint: 'ask again when the other model can be reached, or shorten the prompt',
  })
}

export const contextFull = (model: string): BrimError =>
  new BrimError('CONTEXT_OVERFLOW', `the answer has filled the context of the model ${model}`)

export const silent = ({ endpoint, lateMs = 0 }: AnswerSide): BrimError =>
  new BrimError(
    'UPSTREAM_FAILED',
    `${endpoint.model.name} sent nothing for ${Math.round(lateMs)} ms in the middle of an answer`,
    {
      hint: 'the other side went on',
    },
  )

/** @param signal aborted */
export const canceled = ({ reason }: AbortSignal): BrimError =>
  reason instanceof BrimError ? reason : new BrimError('CANCELED', 'the answer was canceled')
