import { BrimError } from '../../core/base/errors.ts'

/** `hottestC=2` or `W=20%`: a figure or a unit, and how far it may move. @throws BrimError USAGE */
export function readDeadBand(text: string): [string, { amount: number } | { part: number }] {
  const [, name, size, percent] = /^(\w+)=(\d+(?:\.\d+)?)(%?)$/.exec(text) ?? []
  if (name === undefined)
    throw new BrimError('USAGE', `--dead-band "${text}" is none`, {
      hint: 'like hottestC=2 (an amount) or W=20% (of what it was)',
    })
  return [name, percent === '%' ? { part: Number(size) / 100 } : { amount: Number(size) }]
}
