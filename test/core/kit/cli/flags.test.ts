import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { flagsOf, flagsText, parseFlags } from '../../../../core/kit/cli/flags.ts'

const Settings = z.strictObject({
  name: z.string().describe('name of the thing'),
  threads: z.int().min(1).max(8).default(2).describe('threads per operator'),
  keepS: z.number().positive().meta({ flag: 'keep', description: 'retention in seconds', fallback: 'for ever' }).optional(),
  mode: z.enum(['fast', 'exact']).default('fast').meta({ description: 'mode', alias: 'm' }),
  isLoud: z.boolean().default(false).describe('print more'),
  urls: z
    .array(z.url({ error: 'must be a URL' }))
    .describe('addresses')
    .optional(),
  tls: z.strictObject({ cert: z.string().describe('certificate'), key: z.string().describe('its key') }).optional(),
  /** Without a description: a setting that is no option. */
  hidden: z.number().default(7),
})

describe('flagsOf', () => {
  const flags = new Map(flagsOf(Settings).map((flag) => [flag.name, flag]))

  it('makes an option of every described field, nested ones included', () => {
    expect([...flags.keys()]).toEqual(['name', 'threads', 'keep', 'mode', 'is-loud', 'urls', 'tls-cert', 'tls-key'])
    expect(flags.get('tls-cert')).toMatchObject({ path: ['tls', 'cert'], help: 'certificate' })
  })

  it('takes type, default, choices and alias from the schema', () => {
    expect(flags.get('threads')).toMatchObject({ type: 'number', fallback: '2', isRequired: false })
    expect(flags.get('keep')).toMatchObject({ type: 'number', fallback: 'for ever' })
    expect(flags.get('mode')).toMatchObject({ type: 'string', choices: ['fast', 'exact'], fallback: 'fast', alias: 'm' })
    expect(flags.get('is-loud')).toMatchObject({ type: 'boolean' })
    expect(flags.get('is-loud')?.fallback).toBeUndefined()
    expect(flags.get('urls')).toMatchObject({ type: 'string', isList: true })
  })

  it('requires a field without default, but not the fields of an optional group', () => {
    expect(flags.get('name')?.isRequired).toBe(true)
    expect(flags.get('tls-cert')?.isRequired).toBe(false)
  })
})

describe('parseFlags', () => {
  it('puts each value at its place and fills in the defaults', () => {
    expect(parseFlags(Settings, { name: 'a', keep: 5, 'tls-cert': 'c', 'tls-key': 'k' })).toEqual({
      name: 'a',
      threads: 2,
      keepS: 5,
      mode: 'fast',
      isLoud: false,
      tls: { cert: 'c', key: 'k' },
      hidden: 7,
    })
  })

  it.each([
    [{ name: 'a', threads: 0 }, '--threads 0 must be at least 1'],
    [{ name: 'a', threads: 9 }, '--threads 9 must be at most 8'],
    [{ name: 'a', threads: 1.5 }, '--threads 1.5 must be a whole number'],
    [{ name: 'a', threads: Number.NaN }, '--threads NaN must be a number'],
    [{ name: 'a', keep: 0 }, '--keep 0 must be above 0'],
    [{ name: 'a', mode: 'slow' }, '--mode slow must be one of fast, exact'],
    [{ name: 'a', urls: ['http://a', 'b'] }, '--urls b must be a URL'],
    [{ name: 'a', 'tls-cert': 'c' }, '--tls-key is missing'],
    [{ name: ['a', 'b'] }, '--name is given more than once'],
    [{ threads: 0 }, '--name is missing; --threads 0 must be at least 1'],
  ])('rejects %j by the name of the option', (values, message) => {
    expect(() => parseFlags(Settings, values)).toThrow(expect.objectContaining({ code: 'USAGE', message }))
  })

  it('names a positional without dashes', () => {
    expect(() => parseFlags(Settings, { name: 'a', mode: 'slow' }, ['mode'])).toThrow('mode slow must be')
  })
})

describe('flagsText', () => {
  it('repeats the options that differ from their defaults', () => {
    const settings = parseFlags(Settings, { name: 'a', threads: 4, 'tls-cert': 'c', 'tls-key': 'k' })
    expect(flagsText(Settings, settings)).toEqual(['--name a', '--threads 4', '--is-loud false', '--tls-cert c', '--tls-key k'])
  })
})
