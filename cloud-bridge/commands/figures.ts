/** Text of an unknown figure. */
export const unknown = '–'

/** Columns need characters of one width. */
const narrow = (text: string): string => text.replace(/[^\x20-\x7e°–…]/g, '?')

/** At most `width` columns, its end cut. */
export function cutEnd(text: string, width: number): string {
  const shown = narrow(text)
  return shown.length <= width ? shown : `${shown.slice(0, Math.max(0, width - 1))}…`
}

/** At most `width` columns, its middle cut: names often differ at their end. */
export function cutMiddle(text: string, width: number): string {
  const shown = narrow(text)
  if (shown.length <= width) return shown
  const tail = Math.floor((width - 1) / 2)
  return `${shown.slice(0, width - 1 - tail)}…${shown.slice(shown.length - tail)}`
}

const units = ['', 'k', 'M', 'G', 'T', 'P'] as const

/** At most four characters: 0, 7.1, 83, 1.2k, 340M; '>9P' beyond that. */
export function compact(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value) || value < 0) return unknown
  let rest = value
  for (const unit of units) {
    if (rest < 9.95 && rest > 0 && (unit !== '' || !Number.isInteger(rest))) return `${rest.toFixed(1)}${unit}`
    if (Math.round(rest) < 1_000) return `${Math.round(rest)}${unit}`
    rest /= 1_000
  }
  return '>9P'
}

/** Binary units: 7.4 GiB. */
export function bytes(value: number | null | undefined): string {
  if (value == null) return unknown
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
  const power = value < 1 ? 0 : Math.min(names.length - 1, Math.floor(Math.log2(value) / 10))
  return `${(value / 2 ** (10 * power)).toFixed(power === 0 ? 0 : 1)} ${names[power]}`
}

/** At most four characters: 3s, 12m, 5h, 41d, >9y. */
export function age(seconds: number | null | undefined): string {
  if (seconds == null || !Number.isFinite(seconds)) return unknown
  if (seconds < 99.5) return `${Math.round(Math.max(0, seconds))}s`
  if (seconds < 99.5 * 60) return `${Math.round(seconds / 60)}m`
  if (seconds < 47.5 * 3_600) return `${Math.round(seconds / 3_600)}h`
  const days = Math.round(seconds / 86_400)
  return days <= 999 ? `${days}d` : days < 3_650 ? `${Math.floor(days / 365)}y` : '>9y'
}

/** A whole percentage, or unknown. */
export const percent = (value: number | null | undefined): string =>
  value == null ? unknown : String(Math.round(Math.min(100, Math.max(0, value))))
