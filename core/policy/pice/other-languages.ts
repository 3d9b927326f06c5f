/**
 * Whether a request in another language than English asks for several things: the trained weights know English words only. Numbers of
 * things, quotations, code and formulas show in any script; words that ask for points, or for one text or fact, are known of German,
 * French, Spanish and Chinese.
 */

type Latin = 'de' | 'en' | 'es' | 'fr'

/** Frequent words that tell these languages apart. */
const commonWords: Readonly<Record<Latin, ReadonlySet<string>>> = {
  de: wordsOf(
    'der die das den dem des ein eine einen einem ist sind wie was warum wer wann wo welche welches und oder nicht mir mich ich du für von mit auf zu im bei aus nenne gib schreibe übersetze kann soll es wurde viele',
  ),
  en: wordsOf(
    'the a an of to in is are was were what how why who when where which and or not me my i you for from with on at by give list write tell can should do does it that this explain',
  ),
  es: wordsOf(
    'el la los las un una unos de del que qué cómo por para con en y o es son cuáles cuál quién cuándo dónde cuánto cuántos me mi al se su dame escribe traduce puedo debo hay fue',
  ),
  fr: wordsOf(
    'le la les un une des du de que quoi comment pourquoi pour avec dans en et ou est sont quels quelles quel quelle qui quand où combien me moi mon au aux ce cette donne écris traduis puis dois il a été',
  ),
}

const asksForSeveral =
  /\b(?:tipps|gründe|ideen|vorteile|nachteile|schritte|möglichkeiten|ursachen|folgen|unterschiede|beispiele|wege|conseils|raisons|idées|avantages|inconvénients|étapes|façons|causes|effets|différences|exemples|moyens|consejos|razones|ideas|ventajas|desventajas|pasos|formas|maneras|causas|efectos|diferencias|ejemplos)(?!\p{L})|建议|理由|原因|优点|缺点|好处|方法|步骤|区别|影响|技巧|例子|哪些|列出|列举/iu
const asksHow = /^\W*(?:wie (?:kann|soll|könnte)|comment|cómo|como)(?!\p{L})|如何|怎么|怎样/iu
/** As digits, or in words up to ten. */
const severalThings =
  /(?<![\d.,:/])(?:[2-9]|1\d|20)\s?(?:\p{L}{3,}|[个個种種条條点點项項])|(?<!\p{L})(?:drei|vier|fünf|sechs|sieben|acht|zehn|trois|quatre|cinq|six|sept|huit|dix|tres|cuatro|cinco|seis|siete|ocho|diez)(?!\p{L})|[三四五六七八九十][个個种種条條点點项項]/iu
const oneText =
  /(?<!\p{L})(?:schreib\p{L}*|übersetz\p{L}*|fasse|verfass\p{L}*|erzähl\p{L}*|écri[st]\p{L}*|tradui\p{L}*|résume\p{L}*|rédige\p{L}*|raconte\p{L}*|escrib\p{L}*|traduc\p{L}*|resum\p{L}*|redact\p{L}*|cuénta\p{L}*)(?!\p{L})|写(?:一|个|封|首|篇)|翻译|总结|改写|讲(?:一个|个)/iu
const oneFact =
  /^[\s¿¡]*(?:wer|wann|wo|wie (?:viele?|hoch|alt|lange?|weit|groß)|welche[rs]|was ist|qui|quand|où|combien|quel(?:le)? est|quién|cuándo|dónde|cuánt\p{L}*|cuál es)(?!\p{L})|谁|什么时候|哪里|哪一|多少|几(?:个|点|岁)|首都|是什么/iu
const formulas = /[=^√∫∑≤≥{};]|\d\s*[-+*/×÷]\s*\d|```|\bC\+\+|(?<!\p{L})(?:python|java|javascript|sql|html)(?!\p{L})/iu
const quotation = /["“”«»„「」]|[:：]\s*\n/u

const lexicalOdds: readonly (readonly [pattern: RegExp, odds: number])[] = [
  [asksForSeveral, 2.5],
  [asksHow, 1.5],
  [severalThings, 1.5],
  [oneText, -4],
  [oneFact, -3],
  [formulas, -4],
  [quotation, -2],
]
/** Of a request that shows nothing of all this. */
const usualOdds = -1

/** Logarithm of the odds that a request suits a sketch. @returns undefined for English, and for a language that looks like it */
export function oddsInOtherLanguage(text: string, words: readonly string[]): number | undefined {
  if (isEnglish(text, words)) return undefined
  return lexicalOdds.reduce((sum, [pattern, odds]) => sum + (pattern.test(text) ? odds : 0), usualOdds)
}

function isEnglish(text: string, words: readonly string[]): boolean {
  const letters = text.match(/\p{L}/gu)?.length ?? 0
  const latin = text.match(/\p{Script=Latin}/gu)?.length ?? 0
  if (letters > 0 && latin < 0.7 * letters) return false
  const count = (language: Latin) => words.filter((word) => commonWords[language].has(word)).length
  const english = count('en')
  return (['de', 'es', 'fr'] as const).every((language) => count(language) <= english)
}

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.split(' '))
}
