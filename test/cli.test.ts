import { describe, expect, it } from 'vitest'
import { run } from '../brim.ts'
import { captureIo } from './support/captured-io.ts'

describe('the command line', () => {
  it('shows the nouns with examples', async () => {
    const { io, out } = captureIo()
    expect(await run(['--help'], io)).toBe(0)
    for (const noun of ['ask', 'model', 'agent', 'bridge', 'doctor', 'bench', 'demo']) expect(out()).toContain(`brim ${noun}`)
    expect(out()).toContain('Examples:')
  })

  it.each([
    'model build',
    'model inspect',
    'model verify',
    'model run',
    'agent run',
    'bridge run',
    'ask',
    'doctor',
    'bench engine',
    'demo',
  ])('opens the help of %s with examples, and offers --json', async (command) => {
    const { io, out } = captureIo()
    expect(await run([...command.split(' '), '--help'], io)).toBe(0)
    expect(out()).toContain('Examples:')
    expect(out()).toContain('--json')
  })

  it('says with exit code 2 what it does not understand', async () => {
    const { io, out, err } = captureIo()
    expect(await run(['modle'], io)).toBe(2)
    expect(err()).toContain('modle')
    expect(err()).toContain('try:')
    expect(out()).toBe('')
  })

  it('says with exit code 2 which option it does not know', async () => {
    const { io, err } = captureIo()
    expect(await run(['doctor', '--colour'], io)).toBe(2)
    expect(err()).toContain('colour')
  })

  it('says with exit code 2 which setting cannot be', async () => {
    const { io, err } = captureIo()
    expect(await run(['model', 'run', 'tiny', '--prompt', 'a', '--top-p', '2'], io)).toBe(2)
    expect(err()).toContain('top-p 2 must lie above 0')
  })

  it('says with exit code 2 which option is given twice', async () => {
    const { io, err } = captureIo()
    expect(await run(['model', 'build', 'tiny', '--out', 'a', '--out', 'b'], io)).toBe(2)
    expect(err()).toContain('--out is given more than once')
  })

  it('gives errors as JSON on stderr when asked to', async () => {
    const { io, out, err } = captureIo()
    expect(await run(['model', 'inspect', '/nowhere/at/all', '--json'], io)).toBe(1)
    expect(JSON.parse(err())).toMatchObject({ error: { code: 'BUNDLE_INVALID' } })
    expect(out()).toBe('')
  })

  it('exits with 3 where no agent answers', async () => {
    const { io, err } = captureIo()
    expect(await run(['ask', 'hello', '--api', 'http://127.0.0.1:1'], io)).toBe(3)
    expect(err()).toContain('AGENT_UNREACHABLE')
  })

  it('tells its version', async () => {
    const { io, out } = captureIo()
    expect(await run(['--version'], io)).toBe(0)
    expect(out().trim()).toMatch(/^\d+\.\d+\.\d+/)
  })
})
