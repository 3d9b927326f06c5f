/** When unacknowledged events are resent, in ticks of a fixed interval. */
export interface ResendState {
  readonly intervalTicks: number
  readonly remainingTicks: number
}

/** Resend at the next tick: the bridge has just sent a message or the connection is new. */
export const firstResend: ResendState = { intervalTicks: 1, remainingTicks: 1 }

const maxIntervalTicks = 16

/** One tick: the interval doubles after each resend. */
export function nextResend({ intervalTicks, remainingTicks }: ResendState): { isDue: boolean; state: ResendState } {
  if (remainingTicks > 1) return { isDue: false, state: { intervalTicks, remainingTicks: remainingTicks - 1 } }
  const ticks = Math.min(2 * intervalTicks, maxIntervalTicks)
  return { isDue: true, state: { intervalTicks: ticks, remainingTicks: ticks } }
}
