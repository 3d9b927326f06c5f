import type { Random } from '../core/kit/base/random.ts'

/** A JSON schema of bounded values, so that every answer to it ends: at most `depth` objects or arrays within each other. */
export function randomSchema(random: Random, depth = 3): object {
  const upTo = (count: number) => Math.floor(random.next() * count)
  const name = () => ['name', 'age', 'city', 'tags', 'open', 'price', 'note', 'x'][upTo(8)]!
  const scalars: readonly (() => object)[] = [
    () => ({ type: 'string', maxLength: 1 + upTo(12) }),
    () => ({ type: 'string', pattern: ['^[a-z]{1,6}$', '^\\d{2}-\\d{2}$', '^(yes|no|maybe)$'][upTo(3)] }),
    () => ({ type: 'integer', minimum: -upTo(50), maximum: 1 + upTo(500) }),
    () => ({ type: 'boolean' }),
    () => ({ type: 'null' }),
    () => ({ enum: ['red', 'green', 7, null, true].slice(0, 2 + upTo(4)) }),
    () => ({ const: ['fixed', 3, { a: [1] }][upTo(3)] }),
    () => ({ type: 'string', format: ['date', 'time', 'ipv4', 'uuid'][upTo(4)] }),
  ]
  if (depth === 0 || random.next() < 0.4) return scalars[upTo(scalars.length)]!()
  const inner = () => randomSchema(random, depth - 1)
  switch (upTo(4)) {
    case 0:
      return { anyOf: [inner(), inner()] }
    case 1:
      return { type: 'array', items: inner(), minItems: upTo(2), maxItems: 2 + upTo(2) }
    default: {
      const properties = Object.fromEntries(Array.from({ length: 1 + upTo(4) }, () => [name(), inner()]))
      const required = Object.keys(properties).filter(() => random.next() < 0.7)
      return { type: 'object', properties, required, additionalProperties: false }
    }
  }
}
