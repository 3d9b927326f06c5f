import type { z } from 'zod'
import { BrimError } from './errors.ts'
import './plain-messages.ts'

/**
 * A program's settings with their defaults.
 * @param command lists the settings with --help
 * @throws BrimError CONFIG_INVALID naming every field that is wrong
 */
export function parseConfig<Schema extends z.ZodType>(schema: Schema, settings: unknown, command: string): z.output<Schema> {
  const parsed = schema.safeParse(settings)
  if (parsed.success) return parsed.data
  const wrong = parsed.error.issues.map(({ path, message }) => [path.join('.'), message].filter(Boolean).join(': '))
  throw new BrimError('CONFIG_INVALID', `invalid configuration: ${wrong.join('; ')}`, {
    hint: `${command} --help lists the options and their defaults`,
  })
}
