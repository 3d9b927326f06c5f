import type { Command, Menu } from './command.ts'

/** What the first words of a command line name: a menu, or a command. */
export interface Found {
  /** From `brim` on, without positionals: `brim job submit`. */
  readonly words: string
  /** As the menu has it: `submit <kind>`; empty for the menu of all commands. */
  readonly name: string
  readonly summary: string
  readonly loaded: { readonly command: Command } | { readonly menu: Menu }
  /** The arguments without the words of the command. */
  readonly rest: readonly string[]
}

/** Follows the words of a command line as far as they name menus and commands, and loads no other command. Options may precede them. */
export async function findCommand(menu: Menu, argv: readonly string[], words: string, summary: string): Promise<Found> {
  let found: Found = { words, name: '', summary, loaded: { menu }, rest: argv }
  while ('menu' in found.loaded) {
    const at = found.rest.findIndex((argument) => !argument.startsWith('-'))
    const word = found.rest[at]
    const entry = Object.entries(found.loaded.menu.commands).find(([name]) => wordOf(name) === word)
    if (word === undefined || entry === undefined) break
    const [name, [about, load]] = entry
    const rest = found.rest.toSpliced(at, 1)
    found = { words: `${found.words} ${word}`, name, summary: about, loaded: await load(), rest }
  }
  return found
}

export const wordOf = (name: string): string => name.split(' ', 1)[0] ?? name

/** Names of the positionals in `label <device> [changes..]`. */
export const positionalsOf = (name: string): string[] => [...name.matchAll(/[<[](\w+)/g)].map(([, word]) => word ?? '')

/**
 * `brim model build <checkpoint> --out <out> [options]`
 * @param words of the command, without positionals
 */
export function usageOf({ usage, flags }: Command, name: string, words: string): string {
  const needed = flags.filter((flag) => flag.isRequired && !positionalsOf(name).includes(flag.name))
  const parts = usage ?? [...name.split(' ').slice(1), ...needed.map((flag) => `--${flag.name} <${flag.name}>`)].join(' ')
  return [words, parts, '[options]'].filter(Boolean).join(' ')
}
