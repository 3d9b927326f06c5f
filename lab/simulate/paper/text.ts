import type { PaperFile, Selection, Values } from './paper-file.ts'
import { firstRun, type PaperRun, quantityOf } from './quantity.ts'

export type TextScope = Readonly<Record<string, unknown>>

/** Digits after the point, per cent, or significant digits; a value as it is without. */
const format = /^(?:(?<fixed>\d)|(?<percent>%)|(?<significant>\d)g)$/

/**
 * Fills in `{name}`, `{name.field}` and `{name:format}`, with a format of `2` (digits after the point), `%` or `3g` (significant digits).
 * @throws RangeError where the scope lacks one of them
 */
export const fill = (text: string, scope: TextScope): string =>
  text.replaceAll(/\{([\w.]+)(?::([^}]+))?\}/g, (_, path: string, how?: string) => {
    const value = path.split('.').reduce<unknown>((whole, name) => (whole as TextScope | undefined)?.[name], scope)
    if (value === undefined) throw new RangeError(`no value of {${path}} in “${text.slice(0, 60)}…”`)
    return shown(value, how)
  })

function shown(value: unknown, how: string | undefined): string {
  if (value === null) return '–'
  if (how === undefined) return Array.isArray(value) ? value.join(', ') : String(value)
  const { fixed, significant } = format.exec(how)!.groups!
  const number = value as number
  if (fixed !== undefined) return number.toFixed(Number(fixed))
  if (significant !== undefined) return String(Number(number.toPrecision(Number(significant))))
  return `${(100 * number).toFixed(0)} %`
}

/** What was varied, as it is shown. */
export const namesOf = ({ names }: Pick<PaperFile, 'names'>, varied: Selection): TextScope =>
  Object.fromEntries(Object.entries(varied).map(([name, value]) => [name, names[name]?.[value] ?? value]))

export const scopeOf = (values: Values, runs: readonly PaperRun[], base: Selection = {}): TextScope =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      'run' in value ? firstRun(runs, { ...base, ...value.run }) : quantityOf(value, runs, base),
    ]),
  )
