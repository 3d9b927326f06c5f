/** α of HAT Eq. 1 and 2: the weight of the past. The paper says none for γ and β: the same. */
const alpha = 0.8

/** Exponential average: α·past + (1 − α)·now; `now` where there is no past. */
export function smooth(past: number | undefined, now: number): number {
  return past === undefined ? now : alpha * past + (1 - alpha) * now
}
