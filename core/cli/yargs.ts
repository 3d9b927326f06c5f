import type { Argv, Options } from 'yargs'
import type { Io } from '../base/io.ts'
import type { Command, Entry, Menu } from './command.ts'
import type { Flag } from './flags.ts'

/** Registers a menu's commands with yargs. Each is loaded when it runs, or when its help is shown. */
export function addMenu(yargs: Argv, menu: Menu, words: string, io: Io): Argv {
  for (const [name, entry] of Object.entries(menu.commands)) addEntry(yargs, name, entry, words, io)
  return yargs.example(menu.examples.map(([line, note]) => [line, note]))
}

function addEntry(yargs: Argv, name: string, [summary, load]: Entry, parent: string, io: Io): void {
  const words = `${parent} ${wordOf(name)}`
  yargs.command({
    command: name,
    describe: summary,
    async builder(inner: Argv) {
      const loaded = await load()
      if ('command' in loaded) {
        const { command } = loaded
        return addOptions(inner, command, positionalsOf(name)).usage(titleOf(summary, usageOf(command, name, parent)))
      }
      return addMenu(inner, loaded.menu, words, io)
        .usage(titleOf(summary, `${words} <command> [options]`))
        .demandCommand(1, `"${words}" needs a command: ${words} --help lists them`)
    },
    async handler(values) {
      const loaded = await load()
      if ('command' in loaded) await loaded.command.run(values, positionalsOf(name), io)
    },
  })
}

const titleOf = (summary: string, usage: string) => `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.\n\nUsage: ${usage}`
const wordOf = (name: string) => name.split(' ', 1)[0] ?? name

/** Names of the positionals in `label <device> [changes..]`. */
export const positionalsOf = (name: string): string[] => [...name.matchAll(/[<[](\w+)/g)].map(([, word]) => word ?? '')

/** `brim model build <checkpoint> --out <out> [options]` */
export function usageOf({ usage, flags }: Command, name: string, parent: string): string {
  const needed = flags.filter((flag) => flag.isRequired && !positionalsOf(name).includes(flag.name))
  const parts = usage ?? [...name.split(' ').slice(1), ...needed.map((flag) => `--${flag.name} <${flag.name}>`)].join(' ')
  return [parent, wordOf(name), parts, '[options]'].filter(Boolean).join(' ')
}

function addOptions(yargs: Argv, command: Command, positionals: readonly string[]): Argv {
  for (const flag of command.flags) {
    if (positionals.includes(flag.name)) yargs.positional(flag.name, positionalOf(flag))
    else yargs.option(flag.name, optionOf(flag))
  }
  return yargs.example(command.examples.map(([line, note]) => [line, note])).epilogue(command.notes ?? '')
}

/** Defaults are shown only: the schema sets them, so that options that are not given stay absent. */
const positionalOf = ({ type, help, isList, isRequired, choices, fallback }: Omit<Flag, 'alias' | 'conflicts'>) => ({
  type,
  describe: help,
  array: isList,
  demandOption: isRequired,
  ...(choices && { choices }),
  ...(fallback && { defaultDescription: fallback }),
})

const optionOf = ({ alias, conflicts, ...flag }: Flag): Options => ({
  ...positionalOf(flag),
  ...(flag.isList ? { nargs: 1 } : { requiresArg: flag.type !== 'boolean' }),
  ...(alias && { alias }),
  ...(conflicts && { conflicts }),
})
