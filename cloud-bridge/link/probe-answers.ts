import type { Clock } from '../../core/kit/base/clock.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import type { Logger } from '../../core/kit/base/logger.ts'
import { CountWindow } from '../../core/policy/quota/count-window.ts'
import { encodeFault } from '../../core/wire/protocol/fault.ts'
import { peekFrame } from '../../core/wire/protocol/frame.ts'
import { decodeProbe, encodeProbe, type Probe } from '../../core/wire/protocol/probe.ts'

/** Probes of one connection that are answered within a minute. A device sends two in five minutes. */
export const probesPerMinute = 8

export interface ProbeAnswersOptions {
  readonly clock: Clock
  readonly logger: Logger
  readonly send: (bytes: Uint8Array) => void
}

/** @returns a function that answers the probes of one connection; it ignores those beyond the limit */
export function createProbeAnswers({ clock, logger, send }: ProbeAnswersOptions): (bytes: Uint8Array) => void {
  const answered = new CountWindow({ windowMs: 60_000, max: probesPerMinute, maxKeys: 1 })
  let hasWarned = false
  return (bytes) => {
    if (!answered.take('', clock.nowMs())) {
      if (!hasWarned) logger.warn({ probesPerMinute }, 'too many probes, ignoring those beyond the limit')
      hasWarned = true
      return
    }
    let probe: Probe
    try {
      probe = decodeProbe(bytes)
    } catch (error) {
      if (!(error instanceof BrimError)) throw error
      return send(encodeFault(peekFrame(bytes), { code: error.code, message: error.message }))
    }
    send(encodeProbe({ seq: probe.seq, want: 0, payload: probe.payload.subarray(0, probe.want) }))
  }
}
