import { z } from 'zod'

/** Describes a problem in place of zod's own words, for use after the field's name. A message in the schema takes precedence. */
function plainMessage(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type': {
      if (issue.input === undefined) return 'is missing'
      const expected = typeNames[issue.expected] ?? issue.expected
      return `must be ${/^[aeiou]/.test(expected) ? 'an' : 'a'} ${expected}`
    }
    case 'too_small':
      if (issue.minimum === 1 && issue.origin in countedThings) return 'must not be empty'
      return `must ${sizeOf(issue.origin, issue.inclusive ? 'at least' : 'above', issue.minimum)}`
    case 'too_big':
      return `must ${sizeOf(issue.origin, issue.inclusive ? 'at most' : 'below', issue.maximum)}`
    case 'invalid_value':
      return `must be ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.join(', ')}`
    case 'invalid_format':
      return issue.format === 'regex' ? `must have the form ${issue.pattern}` : `is not a valid ${issue.format}`
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'unrecognized_keys':
      return `unknown: ${issue.keys.join(', ')}`
    case 'invalid_union':
      return 'has none of the allowed forms'
    case 'invalid_key':
      return 'has an invalid name in it'
    default:
      return undefined
  }
}

const typeNames: Readonly<Record<string, string>> = { int: 'whole number', record: 'object', array: 'list' }

/** What the size of a value counts, by zod's name of its type. */
const countedThings: Readonly<Record<string, string>> = { string: 'characters', array: 'items', set: 'items', map: 'items' }

const sizeOf = (origin: string, bound: string, size: number | bigint) =>
  origin in countedThings ? `have ${bound} ${size} ${countedThings[origin]}` : `be ${bound} ${size}`

// Of the whole process: import this module where the messages of a schema are shown.
z.config({ customError: plainMessage })
