import { BrimError } from '../base/errors.ts'
import type { Command, Menu } from './command.ts'
import { wordOf } from './find-command.ts'
import type { Flag } from './flags.ts'
import { nearestWord } from './nearest-word.ts'

/** A menu without the name of one of its commands: a word is missing, or unknown. */
export function menuError({ commands }: Menu, words: string, unknown: string | undefined): BrimError {
  const known = Object.keys(commands).map(wordOf)
  const list = `${words === 'brim' ? 'the commands' : `the commands of "${words}"`} are ${known.join(', ')}`
  if (unknown === undefined) {
    const message = words === 'brim' ? 'a command is missing' : `"${words}" needs a command`
    return new BrimError('USAGE', `${message}: ${list}`, { hint: `${words} --help` })
  }
  const nearest = nearestWord(unknown, known)
  return new BrimError('USAGE', `there is no command "${words} ${unknown}"; ${list}`, {
    hint: nearest === undefined ? `${words} --help` : `did you mean "${words} ${nearest}"?`,
  })
}

/** Rejects options that the command does not have, before anything else is checked: `--bundel` explains why `--bundle` is missing. */
export function rejectUnknownOptions({ flags, alsoTakes }: Command, words: string, rest: readonly string[]): void {
  const known = new Set(['json', ...[...flags, ...(alsoTakes?.flags ?? [])].flatMap(spellingsOf)])
  const end = rest.indexOf('--')
  const given = (end < 0 ? rest : rest.slice(0, end)).flatMap((word) => /^--([^=]+)/.exec(word)?.[1] ?? [])
  const unknown = given.find((name) => !known.has(name))
  if (unknown === undefined) return
  const nearest = nearestWord(
    unknown,
    [...known].filter((name) => !/[A-Z]/.test(name)),
  )
  const hint = nearest === undefined ? `${words} --help lists the options` : `did you mean --${nearest}?`
  throw new BrimError('USAGE', `"${words}" has no option --${unknown}`, { hint })
}

function spellingsOf({ name, alias, type }: Flag): string[] {
  const names = alias === undefined ? [name] : [name, alias]
  const all = type === 'boolean' ? names.flatMap((word) => [word, `no-${word}`]) : names
  return all.flatMap((word) => [word, camel(word)])
}

const camel = (name: string) => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase())

/** @param message of yargs */
export function parserError(message: string, words: string): BrimError {
  const hint = `${words} --help shows the options and examples`
  if (message.startsWith('Not enough non-option arguments'))
    return new BrimError('USAGE', `"${words}" needs more arguments`, { hint })
  const missing = /^Missing required arguments?: (.*)$/.exec(message)?.[1]
  if (missing) {
    const names = missing.split(', ').map((name) => `--${name}`)
    return new BrimError('USAGE', `${names.join(', ')} ${names.length > 1 ? 'are' : 'is'} missing`, { hint })
  }
  return new BrimError('USAGE', message.replace(/\s+/g, ' '), { hint })
}
