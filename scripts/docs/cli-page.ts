import { menu } from '../../brim.ts'
import { exitCodes } from '../../core/kit/base/errors.ts'
import type { Command, Menu } from '../../core/kit/cli/command.ts'
import { positionalsOf, usageOf, wordOf } from '../../core/kit/cli/find-command.ts'
import type { Flag } from '../../core/kit/cli/flags.ts'
import { alsoTakesText } from '../../core/kit/cli/help.ts'

/** docs/cli.md: every command with its options and examples. */
export async function cliPage(): Promise<string> {
  const { failed, usage, unreachable, interrupted, terminated } = exitCodes
  return `# Command line

Generated from the commands by \`npm run docs\`; a test keeps it current.

Every command takes \`--help\`, and \`--json\` for one JSON document on stdout (one per line when it streams). Results go to
stdout, everything else to stderr. An option without a value in the column "default" is off or not set.

Exit codes: 0 success, ${failed} the operation failed, ${usage} wrong usage, ${unreachable} no agent responds, ${interrupted} interrupted (Ctrl-C),
${terminated} terminated. [errors.md](errors.md) lists the error codes.

${(await sectionsOf(menu, 'brim')).join('\n\n')}
`
}

async function sectionsOf({ commands }: Menu, parent: string): Promise<string[]> {
  const sections: string[] = []
  for (const [name, [summary, load]] of Object.entries(commands)) {
    const loaded = await load()
    if ('menu' in loaded) sections.push(...(await sectionsOf(loaded.menu, `${parent} ${name}`)))
    else sections.push(sectionOf(loaded.command, name, parent, summary))
  }
  return sections
}

function sectionOf(command: Command, name: string, parent: string, summary: string): string {
  const positionals = positionalsOf(name)
  const rows = command.flags.map((flag) => rowOf(flag, positionals.includes(flag.name)))
  const examples = command.examples.map(([line, note]) => `# ${note}\n${line}`)
  return [
    `## ${parent} ${name.split(' ')[0]}`,
    `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`,
    `    ${usageOf(command, name, `${parent} ${wordOf(name)}`)}`,
    ...(rows.length === 0 ? [] : ['| option | meaning | default |\n| --- | --- | --- |\n'.concat(rows.join('\n'))]),
    ...(command.alsoTakes === undefined ? [] : [alsoTakesText(command.alsoTakes.command)]),
    ...(command.notes === undefined ? [] : [command.notes]),
    `\`\`\`sh\n${examples.join('\n')}\n\`\`\``,
  ].join('\n\n')
}

function rowOf({ name, alias, help, choices, fallback, isRequired }: Flag, isPositional: boolean): string {
  const names = isPositional ? [`<${name}>`] : [name, ...(alias === undefined ? [] : [alias])].map((word) => `--${word}`)
  const values = choices === undefined ? '' : ` (${choices.map((choice) => `\`${choice}\``).join(', ')})`
  const standard = isRequired ? 'required' : (fallback ?? '')
  const cells = [names.map((word) => `\`${word}\``).join(', '), plain(help) + values, plain(standard)]
  return `| ${cells.join(' | ')} |`
}

/** Text that Markdown shows as it is. */
const plain = (text: string) => text.replaceAll('|', '\\|').replaceAll('<', '&lt;').replaceAll('*', '\\*')
