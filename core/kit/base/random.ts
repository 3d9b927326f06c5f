/** Injected source of random numbers, uniform in [0, 1). */
export interface Random {
  next(): number
}

/** A small seeded generator (mulberry32) for tests, back-off and benchmarks. Not for secrets. */
export function seededRandom(seed: number): Random {
  // A signed integer, which V8 does not allocate.
  let state = seed | 0
  return {
    next() {
      state = (state + 0x6d2b79f5) | 0
      let t = Math.imul(state ^ (state >>> 15), 1 | state)
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
      return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
    },
  }
}
