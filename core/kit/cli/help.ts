import type { Command, Example, Menu } from './command.ts'
import { type Found, positionalsOf, usageOf } from './find-command.ts'
import type { Flag } from './flags.ts'

type Row = readonly [term: string, meaning: string]

const generalOptions: readonly Row[] = [
  ['    --json', 'print JSON: one document, or one per line when streaming'],
  ['-h, --help', 'show this help'],
]
const versionOption: Row = ['    --version', 'show the version']
const indent = '  '

/**
 * The text of `--help`. Lines of examples are never broken: they are there to be copied.
 * @param columns width of the terminal
 */
export function helpOf({ words, name, summary, loaded }: Found, columns: number): string {
  const sections =
    'menu' in loaded
      ? [title(summary, `${words} <command> [options]`), ...menuSections(loaded.menu, words, name === '', columns)]
      : [title(summary, usageOf(loaded.command, name, words)), ...commandSections(loaded.command, name, columns)]
  return sections.join('\n\n')
}

const title = (summary: string, usage: string) =>
  `${summary.charAt(0).toUpperCase()}${summary.slice(1)}${summary.endsWith('.') ? '' : '.'}\n\nUsage: ${usage}`

function menuSections({ commands, examples }: Menu, words: string, isTop: boolean, columns: number): string[] {
  const rows = Object.entries(commands).map(([name, [summary]]): Row => [`${words} ${name}`, summary])
  return [
    `Commands:\n${layOut(rows, columns)}`,
    ...examplesSection(examples),
    `Options:\n${layOut(isTop ? [...generalOptions, versionOption] : generalOptions, columns)}`,
    `${words} <command> --help shows the options of a command, with examples.`,
  ]
}

function commandSections({ flags, groups, alsoTakes, examples, notes }: Command, name: string, columns: number): string[] {
  const positionals = positionalsOf(name)
  const isPositional = (flag: Flag) => positionals.includes(flag.name)
  const given = flags.filter(isPositional).map((flag): Row => [flag.name, meaningOf(flag)])
  const options = flags.filter((flag) => !isPositional(flag))
  return [
    ...(given.length === 0 ? [] : [`Arguments:\n${layOut(given, columns)}`]),
    ...examplesSection(examples),
    ...optionGroups(options, groups).map(([title, rows]) => `${title}:\n${layOut(rows, columns)}`),
    ...(alsoTakes === undefined ? [] : [alsoTakesText(alsoTakes.command)]),
    ...(notes === undefined ? [] : [notes]),
  ]
}

function optionGroups(flags: readonly Flag[], groups: Command['groups'] = {}): [title: string, rows: Row[]][] {
  const found: [string, Row[]][] = [['Options', []]]
  for (const flag of flags) {
    const title = groups[flag.name]
    if (title !== undefined) found.push([title, []])
    found.at(-1)![1].push([termOf(flag), meaningOf(flag)])
  }
  if (found.length === 1) found[0]![1].push(...generalOptions)
  else found.push(['General', [...generalOptions]])
  return found
}

/** @param command as in `brim agent run` */
export const alsoTakesText = (command: string) => `It also takes the options of "${command}".`

const examplesSection = (examples: readonly Example[]): string[] =>
  examples.length === 0 ? [] : [`Examples:\n${examples.map(([line, note]) => `${indent}# ${note}\n${indent}${line}`).join('\n')}`]

const termOf = ({ name, alias }: Flag) =>
  `    ${[name, ...(alias === undefined ? [] : [alias])].map((word) => `--${word}`).join(', ')}`

function meaningOf({ help, type, isList, isRequired, choices, fallback }: Flag): string {
  const kind = isList ? 'list' : type
  return [
    help,
    type === 'boolean' || choices ? '' : `[${kind}]`,
    choices ? `[choices: ${choices.join(', ')}]` : '',
    isRequired ? '[required]' : '',
    fallback === undefined ? '' : `[default: ${fallback}]`,
  ]
    .filter(Boolean)
    .join(' ')
}

/** Two columns; a term that is too long for the first has a line of its own. */
function layOut(rows: readonly Row[], columns: number): string {
  const widest = Math.max(...rows.map(([term]) => term.length))
  const width = Math.min(widest, Math.max(20, Math.floor(columns * 0.4)))
  const room = Math.max(20, columns - indent.length - width - 2)
  const lines = rows.flatMap(([term, meaning]) => {
    const [first = '', ...others] = wrap(meaning, room)
    const rest = others.map((line) => `${' '.repeat(width + 2)}${line}`)
    return term.length > width
      ? [term, `${' '.repeat(width + 2)}${first}`, ...rest]
      : [`${term.padEnd(width)}  ${first}`, ...rest]
  })
  return lines.map((line) => `${indent}${line}`.trimEnd()).join('\n')
}

/** Lines of at most `width` characters, broken between words. */
function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line]
}
