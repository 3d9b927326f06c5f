import type { z } from 'zod'
import { BrimError } from './errors.ts'

/**
 * A program's settings with their defaults.
 * @param command lists the settings with --help
 * @throws BrimError CONFIG_INVALID naming every field that is wrong
 */
export function parseConfig<Schema extends z.ZodType>(schema: Schema, settings: unknown, command: string): z.output<Schema> {
  const parsed = schema.safeParse(settings, { error: plainMessage })
  if (parsed.success) return parsed.data
  const wrong = parsed.error.issues.map(({ path, message }) => [path.join('.'), message].filter(Boolean).join(': '))
  throw new BrimError('CONFIG_INVALID', `invalid configuration: ${wrong.join('; ')}`, {
    hint: `${command} --help lists the options and their defaults`,
  })
}

/** Describes a problem, for use after the field's name. A message in the schema takes precedence. */
export function plainMessage(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type': {
      if (issue.input === undefined) return 'is missing'
      const expected = issue.expected === 'int' ? 'whole number' : issue.expected
      return `must be ${/^[aeiou]/.test(expected) ? 'an' : 'a'} ${expected}`
    }
    case 'too_small':
      if (issue.origin === 'string' || issue.origin === 'array') return 'must not be empty'
      return `must be ${issue.inclusive ? 'at least' : 'above'} ${issue.minimum}`
    case 'too_big':
      return `must be ${issue.inclusive ? 'at most' : 'below'} ${issue.maximum}`
    case 'invalid_value':
      return `must be one of ${issue.values.join(', ')}`
    case 'unrecognized_keys':
      return `unknown: ${issue.keys.join(', ')}`
    default:
      return undefined
  }
}
