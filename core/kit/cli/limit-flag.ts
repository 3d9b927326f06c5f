import { z } from 'zod'

/** The option `--limit <name>=<number>`, repeatable, for a table of limits. */
export function limitFlag(table: z.ZodObject) {
  const names = Object.keys(table.shape)
  const Setting = z.string().transform((text, context): [string, number] => {
    const [name = '', value = ''] = text.split('=')
    const limit = table.shape[name]
    const parsed = limit?.safeParse(value === '' ? undefined : Number(value))
    const problem =
      value === ''
        ? `must be like ${names[0]}=65536`
        : !limit
          ? `is not a limit; the limits are ${names.join(', ')}`
          : parsed?.error?.issues[0]?.message
    if (problem !== undefined) context.addIssue(problem)
    return [name, Number(value)]
  })
  return z
    .array(Setting)
    .optional()
    .meta({ description: 'a limit as name=number, repeatable; docs/limits.md lists them', fallback: 'as listed there' })
}
