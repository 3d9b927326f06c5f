import { describe, expect, it } from 'vitest'
import { menu, run } from '../brim.ts'
import type { Menu } from '../core/cli/command.ts'
import { captureIo } from './support/captured-io.ts'

/** Every command without its positionals. */
async function leavesOf({ commands }: Menu, parent = ''): Promise<string[]> {
  const leaves = Object.entries(commands).map(async ([name, [, load]]) => {
    const words = `${parent}${name.split(' ')[0]}`
    const loaded = await load()
    return 'menu' in loaded ? leavesOf(loaded.menu, `${words} `) : [words]
  })
  return (await Promise.all(leaves)).flat()
}
const leaves = await leavesOf(menu)

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
