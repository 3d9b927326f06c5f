import yargs from 'yargs'
import { BrimError } from '../base/errors.ts'
import type { Io } from '../base/io.ts'
import { version } from '../base/version.ts'
import type { Menu } from './command.ts'
import { visibleIo } from './visible-io.ts'
import { addMenu } from './yargs.ts'

/** Runs the command of a menu that the command line names. @throws BrimError USAGE, and what the command throws */
export async function execute(menu: Menu, argv: readonly string[], given: Io): Promise<void> {
  const io = visibleIo(given)
  const cli = addMenu(yargs([...argv]), menu, 'brim', io)
    .scriptName('brim')
    .usage('One language model across your fleet and your cloud.\n\nUsage: brim <command> [options]')
    .option('json', {
      type: 'boolean',
      global: true,
      default: false,
      describe: 'print JSON: one document, or one per line when streaming',
    })
    .demandCommand(1, 'a command is missing: brim --help lists them')
    .recommendCommands()
    .strict()
    .version(version)
    .alias('h', 'help')
    .wrap(Math.min(100, process.stdout.columns ?? 100))
    .exitProcess(false)
    .fail((message, error) => {
      throw error ?? usageError(message, argv)
    })
  try {
    // With a callback yargs returns the text of help and version instead of printing it.
    await cli.parseAsync([...argv], {}, (_error, _arguments, output) => {
      if (output) io.out(output)
    })
  } catch (error) {
    throw error instanceof Error && error.name === 'YError' ? usageError(error.message, argv) : error
  }
}

/** @param message of yargs */
function usageError(message: string, argv: readonly string[]): BrimError {
  const firstOption = argv.findIndex((word) => word.startsWith('-'))
  const words = argv.slice(0, firstOption < 0 ? 2 : Math.min(2, firstOption)).join(' ')
  if (message.startsWith('Did you mean')) return new BrimError('USAGE', `there is no command "brim ${words}"`, { hint: message })
  if (message.startsWith('Not enough non-option arguments'))
    return new BrimError('USAGE', `"brim ${words}" needs more arguments`, { hint: `brim ${words} --help` })
  const choice = /^Invalid values:\s+Argument: (.*), Given: (.*), Choices: (.*)$/.exec(message)
  const text = choice ? `${choice[1]} ${choice[2]} must be one of ${choice[3]}` : message
  return new BrimError('USAGE', text.replace(/\s+/g, ' '), { hint: 'add --help to see the options and examples' })
}
