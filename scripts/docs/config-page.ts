import { menu } from '../../brim.ts'
import type { Flag } from '../../core/kit/cli/flags.ts'

/** What the service sets; all other options have their defaults. */
const serviceValues = {
  agent: { 'log-level': 'info', 'log-format': 'text' },
  bridge: { 'log-level': 'info', 'log-format': 'text', bundles: '/var/lib/brim/bundles' },
} as const satisfies Record<string, Readonly<Record<string, string>>>

const maxColumns = 100
/** Set by the service itself, or not an option of a file. */
const hidden = ['config', 'state-dir']

/** jetson/agent.yaml, jetson/bridge.yaml: the configuration of a service, with every option as a comment. */
export async function configPage(name: keyof typeof serviceValues): Promise<string> {
  const values: Readonly<Record<string, string>> = serviceValues[name]
  const head = [
    `Configuration of the Brim ${name}. Keys are the options of "brim ${name} run", and the command line takes precedence.`,
    `After a change: brim ${name} config check, then systemctl restart brim-${name}. brim ${name} config show prints where each`,
    'value was set. Keys, tokens and passwords belong into files that are named here.',
  ]
  const options = (await flagsOfRun(name))
    .filter((flag) => !hidden.includes(flag.name))
    .map((flag) => {
      const set = values[flag.name]
      const line = set === undefined ? `#${flag.name}: ${exampleOf(flag)}` : `${flag.name}: ${set}`
      return [...comment(helpOf(flag)), line].join('\n')
    })
  return `${[comment(head.join(' ')).join('\n'), ...options].join('\n\n')}\n`
}

async function flagsOfRun(name: string): Promise<readonly Flag[]> {
  const commands = await menu.commands[name]?.[1]()
  const run = commands && 'menu' in commands ? await commands.menu.commands.run?.[1]() : undefined
  if (!run || !('command' in run)) throw new Error(`there is no command brim ${name} run`)
  return run.command.flags
}

function helpOf({ help, choices, fallback }: Flag): string {
  const values = choices === undefined ? [] : [`One of ${choices.join(', ')}.`]
  const standard = fallback === undefined ? [] : [`Default: ${fallback}.`]
  return [`${help}.`, ...values, ...standard].join(' ')
}

/** The default where it is a value, else an empty one. */
function exampleOf({ type, isList, choices, fallback = '' }: Flag): string {
  if (isList) return '[]'
  if (type === 'boolean') return fallback === 'yes' ? 'true' : 'false'
  if (type === 'number') return String(Number.parseFloat(fallback) || 0)
  if (fallback === 'none' && !choices) return '""'
  return choices?.includes(fallback) || /^[\w.,=-]+$/.test(fallback) ? fallback : '""'
}

function comment(text: string): string[] {
  const lines: string[] = ['#']
  for (const word of text.split(' ')) {
    const last = lines.length - 1
    if (`${lines[last]} ${word}`.length > maxColumns) lines.push(`# ${word}`)
    else lines[last] += ` ${word}`
  }
  return lines
}
