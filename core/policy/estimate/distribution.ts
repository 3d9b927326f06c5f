/** A distribution of amounts ≥ 0. */
export interface Distribution {
  /** F(x) = P(X ≤ x); F(∞) = 1. */
  cdf(x: number): number
  /** F⁻¹(q) = inf {x : F(x) ≥ q}: 0 for q ≤ 0, Infinity where nothing is known. */
  quantile(q: number): number
}
