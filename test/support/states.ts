import fc from 'fast-check'
import type { States } from '../../core/wire/protocol/states.ts'

/** Blocks of states with arbitrary halves; some have wide rows. */
export function anyStates(options: { maxRows?: number; width?: number } = {}): fc.Arbitrary<States> {
  const width = options.width === undefined ? fc.integer({ min: 1, max: 12 }) : fc.constant(options.width)
  return fc
    .record({ rows: fc.integer({ min: 0, max: options.maxRows ?? 9 }), width })
    .chain(({ rows, width }) =>
      fc.record({
        rows: fc.constant(rows),
        width: fc.constant(width),
        half: fc.uint16Array({ minLength: rows * width, maxLength: rows * width }),
        index: fc.subarray(Array.from({ length: rows }, (_, row) => row)),
        seed: fc.float({ min: 65_505, noNaN: true, noDefaultInfinity: true }),
      }),
    )
    .map(({ rows, width, half, index, seed }) => {
      const block = { rows, width, half }
      return index.length === 0 ? block : { ...block, wide: { index, values: new Float32Array(index.length * width).fill(seed) } }
    })
}
