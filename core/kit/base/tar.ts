const blockBytes = 512

export interface TarFile {
  /** At most 100 bytes. */
  readonly name: string
  readonly text: string
}

/** A POSIX tar archive (ustar) of files that only their owner may read. @param mtimeS seconds since 1970 */
export function tarOf(files: readonly TarFile[], mtimeS: number): Buffer {
  const blocks = files.flatMap(({ name, text }) => {
    const body = Buffer.from(text)
    const padding = Buffer.alloc((blockBytes - (body.length % blockBytes)) % blockBytes)
    return [headerOf(name, body.length, mtimeS), body, padding]
  })
  return Buffer.concat([...blocks, Buffer.alloc(2 * blockBytes)])
}

function headerOf(name: string, bytes: number, mtimeS: number): Buffer {
  const header = Buffer.alloc(blockBytes)
  const octal = (value: number, at: number, width: number) => header.write(value.toString(8).padStart(width - 1, '0'), at)
  header.write(name, 0, 100)
  octal(0o600, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(bytes, 124, 12)
  octal(mtimeS, 136, 12)
  header.write('        0', 148)
  header.write('ustar\u000000', 257)
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  )
  header[155] = 0x20
  return header
}
