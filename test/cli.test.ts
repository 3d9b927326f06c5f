import { describe, expect, it } from 'vitest'
import { menu, run } from '../brim.ts'
import type { Command, Menu } from '../core/kit/cli/command.ts'
import { positionalsOf } from '../core/kit/cli/find-command.ts'
import type { Flag } from '../core/kit/cli/flags.ts'
import { captureIo } from './support/captured-io.ts'

interface Leaf {
  /** Without its positionals. */
  readonly words: string
  readonly positionals: readonly string[]
  readonly command: Command
}

async function leavesOf({ commands }: Menu, parent = ''): Promise<Leaf[]> {
  const leaves = Object.entries(commands).map(async ([name, [, load]]) => {
    const words = `${parent}${name.split(' ')[0]}`
    const loaded = await load()
    if ('menu' in loaded) return leavesOf(loaded.menu, `${words} `)
    return [{ words, positionals: positionalsOf(name), command: loaded.command }]
  })
  return (await Promise.all(leaves)).flat()
}
const commands = await leavesOf(menu)
const leaves = commands.map(({ words }) => words)
/** Options of which a command needs one, as its usage line says. */
const alternatives = [
  'model run --prompt',
  'model run --prompt-ids',
  'job submit --prompt',
  'job submit --input',
  'job submit --model',
  'rollout create --model',
  'rollout create --set',
  'rollout create --settings',
  'rollout create --archive',
  'rollout create --release',
]

describe('the command line', () => {
  it('lists the commands with examples', async () => {
    const { io, out } = captureIo()
    expect(await run(['--help'], io)).toBe(0)
    for (const name of Object.keys(menu.commands)) expect(out()).toContain(`brim ${name}`)
    expect(out()).toContain('--version')
    expect(out()).toContain('Examples:')
  })

  it.each(leaves)('shows the help of %s with examples and --json', async (command) => {
    const { io, out } = captureIo()
    expect(await run([...command.split(' '), '--help'], io)).toBe(0)
    expect(out()).toContain('Examples:')
    expect(out()).toContain('--json')
  })

  it.each(commands.filter(({ command }) => command.groups))('shows the options of $words in groups, each once', async (leaf) => {
    const { io, out } = captureIo()
    await run([...leaf.words.split(' '), '--help'], io)
    for (const title of Object.values(leaf.command.groups!)) expect(out()).toContain(`\n${title}:\n`)
    for (const { name } of leaf.command.flags) expect(out().match(new RegExp(`^ {6}--${name}\\b(?!-)`, 'gm'))).toHaveLength(1)
  })

  it.each(leaves)('shows what happens without each option of %s', (words) => {
    const { command, positionals } = commands.find((leaf) => leaf.words === words)!
    const isSilent = ({ name, type, isRequired, fallback }: Flag) =>
      fallback === undefined &&
      !isRequired &&
      type !== 'boolean' &&
      !positionals.includes(name) &&
      !alternatives.includes(`${words} --${name}`)
    expect(command.flags.filter(isSilent).map(({ name }) => name)).toEqual([])
  })

  it.each(leaves)('shows the default of each option in the help of %s', async (words) => {
    const { io, out } = captureIo()
    await run([...words.split(' '), '--help'], io)
    const help = out().replace(/\s+/g, ' ')
    const { flags } = commands.find((leaf) => leaf.words === words)!.command
    for (const { name, fallback } of flags) {
      expect(help).toContain(name)
      if (fallback !== undefined) expect(help).toContain(`[default: ${fallback}]`)
    }
  })

  it('never breaks an example', async () => {
    for (const { words, command } of commands) {
      const { io, out } = captureIo()
      await run([...words.split(' '), '--help'], io)
      for (const [line] of command.examples) expect(out().split('\n')).toContain(`  ${line}`)
    }
  })

  it.each([
    ['bridge key create --name ci --jobs-per-day 0', '--jobs-per-day 0 must be at least 1'],
    ['bridge key create --name ci --requests-per-minute 1.5', '--requests-per-minute 1.5 must be a whole number'],
    ['bridge key create --name Not-A-Name', '--name Not-A-Name must be lower-case letters'],
    ['login --bridge-url nowhere', '--bridge-url nowhere'],
    ['login --bridge-url http://127.0.0.1:1 --pin x', '--pin x must be 43 letters'],
    [`login --bridge-url http://127.0.0.1:1 --pin ${'x'.repeat(43)}`, 'https:'],
    ['login --bridge-url http://127.0.0.1:1 --key-file /nowhere/key', '/nowhere/key cannot be read'],
    ['whoami --bridge-url nowhere', 'neither a URL nor the name of a login'],
    ['bridge run --bundle x --bundles /nowhere/else', '--bundles /nowhere/else is not a folder'],
    ['device show --json=false', '"brim device show" needs more arguments'],
    ['fleet', 'brim fleet --help'],
    ['device list --state-dir x --bridge http://127.0.0.1:1', '--state-dir'],
  ])('brim %s: reports what is wrong, with exit code 2', async (words, why) => {
    const { io, out, err } = captureIo({ env: { HOME: '/nowhere' } })
    expect(await run(words.split(' '), io)).toBe(2)
    expect([out(), err()]).toEqual(['', expect.stringContaining(why)])
  })

  it('rejects an unknown command, and suggests a similar one', async () => {
    const { io, out, err } = captureIo()
    expect(await run(['modle'], io)).toBe(2)
    expect(err()).toContain('modle')
    expect(err()).toContain('try:')
    expect(out()).toBe('')
  })

  it('rejects an unknown option by name', async () => {
    const { io, err } = captureIo()
    expect(await run(['doctor', '--colour'], io)).toBe(2)
    expect(err()).toContain('colour')
  })

  it('rejects a value that is out of range', async () => {
    const { io, err } = captureIo()
    expect(await run(['model', 'run', 'tiny', '--prompt', 'a', '--top-p', '2'], io)).toBe(2)
    expect(err()).toContain('top-p is 2; it must be greater than 0')
  })

  it('rejects an option that is given twice', async () => {
    const { io, err } = captureIo()
    expect(await run(['model', 'build', 'tiny', '--out', 'a', '--out', 'b'], io)).toBe(2)
    expect(err()).toContain('--out is given more than once')
  })

  it('prints errors as JSON on stderr with --json', async () => {
    const { io, out, err } = captureIo()
    expect(await run(['model', 'inspect', '/nowhere/at/all', '--json'], io)).toBe(1)
    expect(JSON.parse(err())).toMatchObject({ error: { code: 'BUNDLE_INVALID' } })
    expect(out()).toBe('')
  })

  it('exits with 3 when no agent responds', async () => {
    const { io, err } = captureIo()
    expect(await run(['ask', 'hello', '--api', 'http://127.0.0.1:1'], io)).toBe(3)
    expect(err()).toContain('AGENT_UNREACHABLE')
  })

  it('prints its version', async () => {
    const { io, out } = captureIo()
    expect(await run(['--version'], io)).toBe(0)
    expect(out().trim()).toMatch(/^\d+\.\d+\.\d+(\+[0-9a-f]{7,})?$/)
  })
})
