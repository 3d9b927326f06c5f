import yargs, { type Argv, type Options } from 'yargs'
import type { Io } from '../base/io.ts'
import { version } from '../base/version.ts'
import type { Command, Menu } from './command.ts'
import { type Found, findCommand, positionalsOf } from './find-command.ts'
import type { Flag } from './flags.ts'
import { helpOf } from './help.ts'
import { menuError, parserError, rejectUnknownOptions } from './usage-error.ts'
import { visibleIo } from './visible-io.ts'

const summary = 'one language model across your fleet and your cloud'
const maxColumns = 100

/** Runs the command of a menu that the command line names. @throws BrimError USAGE, and what the command throws */
export async function execute(menu: Menu, argv: readonly string[], given: Io): Promise<void> {
  const io = visibleIo(given)
  const found = await findCommand(menu, argv, 'brim', summary)
  if (hasOption(argv, '--help', '-h')) return io.out(helpOf(found, Math.min(maxColumns, process.stdout.columns ?? maxColumns)))
  if (hasOption(argv, '--version')) return io.out(version)
  const { loaded, words, rest } = found
  if ('menu' in loaded) {
    throw menuError(
      loaded.menu,
      words,
      rest.find((word) => !word.startsWith('-')),
    )
  }
  rejectUnknownOptions(loaded.command, words, rest)
  await loaded.command.run(await parse(loaded.command, found), positionalsOf(found.name), io)
}

function hasOption(argv: readonly string[], ...names: string[]): boolean {
  const end = argv.indexOf('--')
  return (end < 0 ? argv : argv.slice(0, end)).some((word) => names.includes(word))
}

/** The values of positionals and options by name. @throws BrimError USAGE */
async function parse(command: Command, { name, words, rest }: Found): Promise<Record<string, unknown>> {
  const positionals = positionalsOf(name)
  const cli = yargs([...rest])
    .scriptName(words)
    .command(['$0', ...name.split(' ').slice(1)].join(' '), '', (inner: Argv) => addOptions(inner, command, positionals))
    .option('json', { type: 'boolean', default: false })
    .strict()
    .help(false)
    .version(false)
    .exitProcess(false)
    .fail((message, error) => {
      throw error ?? parserError(message, words)
    })
  try {
    return await cli.parseAsync()
  } catch (error) {
    throw error instanceof Error && error.name === 'YError' ? parserError(error.message, words) : error
  }
}

function addOptions(yargs: Argv, { flags, alsoTakes, readsFile }: Command, positionals: readonly string[]): Argv {
  for (const flag of [...flags, ...(alsoTakes?.flags ?? [])]) {
    if (positionals.includes(flag.name)) yargs.positional(flag.name, positionalOf(flag))
    else yargs.option(flag.name, optionOf({ ...flag, isRequired: flag.isRequired && !readsFile }))
  }
  return yargs
}

/** Defaults are set and values checked by the schema, so that options that are not given stay absent. */
const positionalOf = ({ type, isList, isRequired }: Pick<Flag, 'type' | 'isList' | 'isRequired'>) => ({
  type,
  array: isList,
  demandOption: isRequired,
})

const optionOf = ({ alias, conflicts, ...flag }: Flag): Options => ({
  ...positionalOf(flag),
  ...(flag.isList ? { nargs: 1 } : { requiresArg: flag.type !== 'boolean' }),
  ...(alias && { alias }),
  ...(conflicts && { conflicts }),
})
