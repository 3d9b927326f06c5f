/** One word of a POSIX shell's command line, quoted where it must be. */
export const shellWord = (text: string): string => (/^[\w./:@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
