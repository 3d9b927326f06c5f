import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineCommand, type Menu } from '../../../../core/kit/cli/command.ts'
import { execute } from '../../../../core/kit/cli/execute.ts'
import { captureIo } from '../../../support/captured-io.ts'

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
const longExample = `brim long ${'--some-option with-a-value '.repeat(6)}end`
const long = defineCommand({ examples: [[longExample, 'a long line']], options: {}, run: () => {} })
const load = (name: string) => async () => {
  loaded.push(name)
  return { command: greet }
}
const menu: Menu = {
  examples: [['brim say greet sam', 'an example']],
  commands: {
    'greet <name> [others..]': ['greet people', load('greet')],
    'other <name>': ['do something else', load('other')],
    long: ['show a long example', async () => ({ command: long })],
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

  it('never breaks the lines of examples', async () => {
    const help = await run('long', '--help')
    expect(help.split('\n')).toContain(`  ${longExample}`)
  })

  it.each([
    [['greet', 'sam', '--tims', '2'], 'did you mean --times?'],
    [['greet', 'sam', '--no-luod'], 'did you mean --no-loud?'],
    [['greet', 'sam', '--jsn'], 'did you mean --json?'],
    [['greet', 'sam', '--colour'], 'brim greet --help lists the options'],
    [['gret', 'sam'], 'did you mean "brim greet"?'],
    [['say', 'hlelo', 'sam'], 'did you mean "brim say hello"?'],
    [['say', 'goodbye'], 'brim say --help'],
    [['say'], 'brim say --help'],
  ])('helps after %j', async (argv, hint) => {
    await expect(run(...argv)).rejects.toMatchObject({ code: 'USAGE', hint })
  })

  it('takes --json before the command', async () => {
    expect(JSON.parse(await run('--json', 'greet', 'sam', '--no-loud'))).toMatchObject({ name: 'sam', json: true, loud: false })
  })

  it.each([
    [['greet'], '"brim greet" needs more arguments'],
    [['greet', 'sam', '--times', '0'], '--times 0 must be at least 1'],
    [['greet', 'sam', '--times'], 'Not enough arguments following: times'],
    [['greet', 'sam', '--loud', '--times', '2'], 'Arguments loud and times are mutually exclusive'],
    [['greet', 'sam', '--colour'], '"brim greet" has no option --colour'],
    [['greet', 'sam', 'ada', '--colour=red', '--times', '0'], '"brim greet" has no option --colour'],
    [['grete', 'sam'], 'there is no command "brim grete"; the commands are greet, other, long, say'],
    [['say'], '"brim say" needs a command: the commands of "brim say" are hello'],
    [['say', 'bye'], 'there is no command "brim say bye"; the commands of "brim say" are hello'],
    [[], 'a command is missing'],
  ])('rejects %j', async (argv, message) => {
    await expect(run(...argv)).rejects.toMatchObject({ code: 'USAGE', message: expect.stringContaining(message) })
  })
})
