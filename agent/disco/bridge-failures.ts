import { UpstreamFailures } from '../../core/answer/upstream/failure.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { ownCodeOf } from '../../core/wire/openai/api-error.ts'

const sameModel = 'the bridge must serve the bundle of this device, and answer with it (not --no-answers)'

/** The errors of a bridge that is asked for an answer of its own model. */
export class BridgeFailures extends UpstreamFailures {
  constructor(model: string) {
    super(model, `the bridge's model ${model}`)
  }

  override coded(code: string, reason: string, retryAfterMs: number): BrimError | undefined {
    const because = (own: ConstructorParameters<typeof BrimError>[0], hint: string) =>
      new BrimError(own, `${this.serverName} cannot be asked: ${reason}`, { hint })
    switch (ownCodeOf(code)) {
      case 'NOT_AUTHORIZED':
        return because('NOT_AUTHORIZED', 'enrol this device at the bridge with "brim agent enroll"')
      case 'FORBIDDEN':
        return because('NOT_AUTHORIZED', 'the operator may have switched off the answers of devices (--no-device-answers)')
      case 'MODEL_UNKNOWN':
      case 'MODEL_MISSING':
        return because('BUNDLE_MISMATCH', sameModel)
      case 'CONTEXT_OVERFLOW':
        return because('CONTEXT_OVERFLOW', 'shorten the prompt')
      case 'QUOTA_EXCEEDED':
        return new BrimError('QUOTA_EXCEEDED', `${this.serverName}: ${reason}`, { hint: 'ask again later', retryAfterMs })
      default:
        return undefined
    }
  }

  override unreachable(retryAfterMs: number, cause: unknown): BrimError {
    if (cause instanceof BrimError) return cause
    return new BrimError('BRIDGE_UNREACHABLE', `${this.serverName} cannot be reached`, {
      cause,
      hint: 'is the bridge running, and its HTTP port reachable from this device?',
      retryAfterMs,
    })
  }

  override brokenOff(cause?: unknown): BrimError {
    return new BrimError('LINK_LOST', `${this.serverName} ended its stream in the middle of an answer`, {
      ...(cause === undefined ? {} : { cause }),
      hint: 'ask again',
    })
  }

  /** The request is made by this agent, so its client has no part in it. */
  override rejected(reason: string): BrimError {
    return this.failed(`rejects the request: ${reason}`)
  }

  otherModel(name: string): BrimError {
    return new BrimError('BUNDLE_MISMATCH', `${this.serverName} was asked, but the model ${name} answers`, { hint: sameModel })
  }
}
