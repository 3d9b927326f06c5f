import type { MonitoredStep } from '../../core/policy/estimate/state-monitor.ts'
import { loadOf } from '../../core/policy/estimate/step-time.ts'

/** A step of one stream without a prompt. */
export const stepOf = (tokens: number, contextLength = 0): MonitoredStep => ({
  ...loadOf([{ rows: tokens, contextLength }]),
  besidePrompt: tokens,
})
