import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineCommand, type Menu } from '../../../core/cli/command.ts'
import { execute } from '../../../core/cli/execute.ts'
import { captureIo } from '../../support/captured-io.ts'

const loaded: string[] = []
const greet = defineCommand({
  examples: [['brim greet sam --times 2', 'twice']],
  notes: 'Be kind.',
  options: {
    name: z.string().describe('name of the person'),
    others: z.array(z.string()).default([]).describe('more names'),
    times: z.int().min(1).default(1).describe('number of greetings'),
    loud: z.boolean().meta({ description: 'in capitals', conflicts: 'times' }).optional(),
    tag: z.array(z.string()).describe('label; repeatable').optional(),
  },
  run(options, io) {
    io.out(JSON.stringify(options))
  },
})
const load = (name: string) => async () => {
  loaded.push(name)
  return { command: greet }
}
const menu: Menu = {
  examples: [['brim say greet sam', 'an example']],
  commands: {
    'greet <name> [others..]': ['greet people', load('greet')],
    'other <name>': ['do something else', load('other')],
    say: ['say something', async () => ({ menu: { examples: [], commands: { 'hello <name>': ['say hello', load('hello')] } } })],
  },
}
const run = async (...argv: string[]) => {
  const { io, out } = captureIo()
  await execute(menu, argv, io)
  return out()
}

describe('execute', () => {
  it('parses positionals, options and --json for a command, and loads that command alone', async () => {
    loaded.length = 0
    const options = JSON.parse(await run('greet', 'sam', 'ada', '--times', '2', '--tag', 'a', '--tag', 'b', '--json'))
    expect(options).toEqual({ name: 'sam', others: ['ada'], times: 2, tag: ['a', 'b'], json: true })
    expect(new Set(loaded)).toEqual(new Set(['greet']))
  })

  it('finds a command of a nested menu', async () => {
    expect(JSON.parse(await run('say', 'hello', 'sam'))).toMatchObject({ name: 'sam', times: 1, json: false })
  })

  it('loads no command for the help of a menu', async () => {
    loaded.length = 0
    expect(await run('--help')).toContain('brim greet <name> [others..]  greet people')
    expect(loaded).toEqual([])
  })

  it('shows summary, usage, options with defaults, examples and notes in the help of a command', async () => {
    const help = await run('greet', '--help')
    expect(help).toContain('Greet people.\n\nUsage: brim greet <name> [others..] [options]')
    expect(help).toMatch(/--times +number of greetings +\[number\] \[default: 1\]/)
    expect(help).toContain('brim greet sam --times 2')
    expect(help).toContain('Be kind.')
  })

  it.each([
    [['greet'], '"brim greet" needs more arguments'],
    [['greet', 'sam', '--times', '0'], '--times 0 must be at least 1'],
    [['greet', 'sam', '--times'], 'Not enough arguments following: times'],
    [['greet', 'sam', '--loud', '--times', '2'], 'Arguments loud and times are mutually exclusive'],
    [['greet', 'sam', '--colour'], 'Unknown argument: colour'],
    [['grete', 'sam'], 'there is no command "brim grete sam"'],
    [['say'], '"brim say" needs a command'],
    [[], 'a command is missing'],
  ])('rejects %j', async (argv, message) => {
    await expect(run(...argv)).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining(message) })
  })
})
