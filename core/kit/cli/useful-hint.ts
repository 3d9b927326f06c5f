import { BrimError } from '../base/errors.ts'
import type { Menu } from './command.ts'

/** The words of the command that a command line names, as in `job list`. */
export async function commandWords({ commands }: Menu, [word = '', ...rest]: readonly string[]): Promise<string[]> {
  const [, entry] = Object.entries(commands).find(([name]) => name.split(' ', 1)[0] === word) ?? []
  if (!entry) return []
  const loaded = await entry[1]()
  return 'menu' in loaded ? [word, ...(await commandWords(loaded.menu, rest))] : [word]
}

/**
 * The error without those parts of its hint that only name the command which has just failed: a bridge, and code that
 * several commands share, do not know which one that is. A part that names further options of the command stays.
 */
export function withUsefulHint(error: unknown, failed: readonly string[]): unknown {
  if (!(error instanceof BrimError) || error.hint === undefined || failed.length === 0) return error
  const own = new RegExp(`\\bbrim ${failed.join(' ')}(?![\\w-])`)
  const parts = error.hint.split('; ').filter((part) => !own.test(part) || / --\w/.test(part.slice(part.search(own))))
  const hint = parts.length === 0 ? undefined : parts.join('; ')
  return hint === error.hint ? error : new BrimError(error.code, error.message, { ...causeOf(error), hint })
}

const causeOf = (error: BrimError) => ('cause' in error ? { cause: error.cause } : {})
