import { z } from 'zod'

/**
 * Like z.array, but stops at the first invalid item, and checks the length before the items: a report of a million
 * invalid items takes seconds and gigabytes.
 */
export function listOf<Item extends z.ZodType>(
  item: Item,
  { min = 0, max = Number.MAX_SAFE_INTEGER }: { min?: number; max?: number } = {},
): z.ZodType<z.output<Item>[], readonly z.input<Item>[]> {
  const list = z
    .array(z.unknown())
    .min(min)
    .max(max)
    .transform((values, context) => {
      const items: z.output<Item>[] = []
      for (const [at, value] of values.entries()) {
        const parsed = item.safeParse(value)
        if (!parsed.success) {
          const [issue] = parsed.error.issues
          context.issues.push({ ...issue!, input: value, path: [at, ...issue!.path] } as (typeof context.issues)[number])
          return z.NEVER
        }
        items.push(parsed.data)
      }
      return items
    })
  return list as z.ZodType<z.output<Item>[], unknown> as z.ZodType<z.output<Item>[], readonly z.input<Item>[]>
}
